// Attention on tensor cores (sm_80 and newer): packed and paged prefill in float16 and bfloat16. A
// block computes 64 or 128 query rows of one key-value head. Keys and values stream through shared
// memory, 64 at a time (32 for heads of more than 128 elements). The next tile is copied while this
// one is used. Heads of other sizes than the tiles' are padded with zeros.
// Source: Dao, "FlashAttention-2", arXiv:2307.08691.
#pragma once

#include "base/math.h"
#include "kernels/cuda/attention/attention_args.cuh"
#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/device/mma.cuh"

namespace beamline::cuda {
namespace attention_tensor_core {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kStages = 2;

// Keys of a tile: limited by the 99 KiB of shared memory of a block on sm_86.
constexpr int KeysPerTile(int head_dim) { return head_dim <= 128 ? 64 : 32; }

template <typename T, int kHeadDim, int kTiles>
constexpr int SharedBytes() {
  constexpr int kRows = kTiles * kWarps * 16 + 2 * kStages * KeysPerTile(kHeadDim);
  constexpr int kBytes = kRows * kHeadDim * static_cast<int>(sizeof(T));
  static_assert(kBytes <= 99 << 10);
  return kBytes;
}

// Copies a tile's rows of keys or values. Rows past the context and elements past head_dim become
// zeros.
template <typename T, int kHeadDim, bool kPadded>
__device__ void CopyTile(const KvRows<T>& rows, int first, int context, int head_dim,
                         SwizzledTile<T, kHeadDim> tile) {
  constexpr int kKeys = KeysPerTile(kHeadDim);
  constexpr int kChunks = kHeadDim / 8;
#pragma unroll
  for (int i = threadIdx.x; i < kKeys * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const bool inside = !kPadded || chunk * 8 < head_dim;
    const bool valid = first + row < context;
    const T* from = rows.Row(valid ? first + row : 0) + (inside ? chunk * 8 : 0);
    CopyAsync(tile.Chunk(row, chunk), from, valid && inside);
  }
}

// The query rows of one warp: kTiles tiles of 16. A lane holds parts of two rows of each tile, lane
// / 4 and lane / 4 + 8. Two tiles per warp halve its reads of shared memory per product.
template <typename T, int kHeadDim, int kTiles>
struct WarpRows {
  static constexpr int kKeys = KeysPerTile(kHeadDim);
  using Scores = float[kTiles][kKeys / 8][4];

  float output[kTiles][kHeadDim / 8][4] = {};
  float maximum[kTiles][2];  // of score * log2_factor
  float total[kTiles][2];    // this lane's part
  int position[kTiles][2], head[kTiles][2];
  int limit[kTiles][2];  // keys that the row sees
  int fewest_keys;       // that any row of this lane sees

  __device__ void MultiplyKeys(SwizzledTile<T, kHeadDim> queries, int first_row,
                               SwizzledTile<T, kHeadDim> keys, Scores& scores) const {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
      uint32_t a[kTiles][4];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        LoadMatrices(queries.Chunk(first_row + 16 * m + lane % 16, 2 * k + lane / 16), a[m]);
      }
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        uint32_t b[4];
        LoadMatrices(keys.Chunk(16 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2), b);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          MultiplyAdd<T>(a[m], b[0], b[1], scores[m][2 * n]);
          MultiplyAdd<T>(a[m], b[2], b[3], scores[m][2 * n + 1]);
        }
      }
    }
  }

  // Edits scores and masks keys, if a tile needs it.
  __device__ void Adjust(const AttentionArgs<T>& args, int first_key, Scores& scores) const {
    const bool edits = EditsScores(args);
    if (!edits && first_key + kKeys <= fewest_keys) return;
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int key = first_key + 8 * n + lane % 4 * 2 + i % 2;
          if (edits) {
            scores[m][n][i] = EditedScore(args, head[m][i / 2], position[m][i / 2], key,
                                          scores[m][n][i] * args.scale);
          }
          if (key >= limit[m][i / 2]) scores[m][n][i] = -INFINITY;
        }
      }
    }
  }

  // Converts scores to probabilities, relative to the running maximum.
  __device__ void Softmax(float log2_factor, Scores& scores) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) SoftmaxRow(m, h, log2_factor, scores);
    }
  }

  __device__ void SoftmaxRow(int m, int h, float log2_factor, Scores& scores) {
    float tile_maximum = -INFINITY;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
      tile_maximum = fmaxf(tile_maximum, fmaxf(scores[m][n][2 * h], scores[m][n][2 * h + 1]));
    }
    tile_maximum = fmaxf(tile_maximum, __shfl_xor_sync(kFullMask, tile_maximum, 1));
    tile_maximum = fmaxf(tile_maximum, __shfl_xor_sync(kFullMask, tile_maximum, 2));
    const float new_maximum = fmaxf(maximum[m][h], tile_maximum * log2_factor);
    // While a row has seen no key, every exponential is 0.
    const float shift = new_maximum == -INFINITY ? 0.0f : new_maximum;
    const float decay = exp2f(maximum[m][h] - shift);
    maximum[m][h] = new_maximum;
    total[m][h] *= decay;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 2 * h; i < 2 * h + 2; ++i) {
        scores[m][n][i] = exp2f(scores[m][n][i] * log2_factor - shift);
        total[m][h] += scores[m][n][i];
      }
    }
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      output[m][n][2 * h] *= decay;
      output[m][n][2 * h + 1] *= decay;
    }
  }

  __device__ void AddValues(SwizzledTile<T, kHeadDim> values, const Scores& probabilities) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      uint32_t a[kTiles][4];
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        const float(&low)[4] = probabilities[m][2 * k];
        const float(&high)[4] = probabilities[m][2 * k + 1];
        a[m][0] = PackPair<T>(low[0], low[1]);
        a[m][1] = PackPair<T>(low[2], low[3]);
        a[m][2] = PackPair<T>(high[0], high[1]);
        a[m][3] = PackPair<T>(high[2], high[3]);
      }
#pragma unroll
      for (int n = 0; n < kHeadDim / 16; ++n) {
        uint32_t b[4];
        LoadMatricesTransposed(values.Chunk(16 * k + lane % 16, 2 * n + lane / 16), b);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          MultiplyAdd<T>(a[m], b[0], b[1], output[m][2 * n]);
          MultiplyAdd<T>(a[m], b[2], b[3], output[m][2 * n + 1]);
        }
      }
    }
  }
};

// Grid: (blocks of query rows, key-value heads, sequences). Shared memory: the queries and two
// stages of keys and values, 96 KiB for 128 rows of 128 elements and for 64 rows of 256. Bound by
// the tensor cores for long sequences: 4 * rows * keys * head_dim operations per head.
template <typename T, int kHeadDim, int kTiles, bool kPadded>
__global__ void __launch_bounds__(kThreads) TensorCoreKernel(AttentionArgs<T> args) {
  extern __shared__ __align__(128) unsigned char shared[];
  constexpr int kRowsPerWarp = kTiles * 16;
  constexpr int kRows = kWarps * kRowsPerWarp;
  T* const tiles = reinterpret_cast<T*>(shared) + kRows * kHeadDim;
  constexpr int kKeys = KeysPerTile(kHeadDim);
  constexpr int kTileSize = kKeys * kHeadDim;
  constexpr int kChunks = kHeadDim / 8;
  const int head_dim = kPadded ? args.head_dim : kHeadDim;
  const int sequence = blockIdx.z;
  const int kv_head = blockIdx.y;
  // The last rows come first, because with a causal mask they have the most keys.
  const int first_row = (gridDim.x - 1 - blockIdx.x) * kRows;
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const SequenceSpan span = SpanOf(args, sequence);
  const int num_rows = min(kRows, span.query_length * args.group_size - first_row);
  if (num_rows <= 0) return;
  const int first_position = span.context - span.query_length;
  const auto query_of = [&](int row) { return (first_row + row) / args.group_size; };
  const auto column_of = [&](int row) {
    return (static_cast<int64_t>(kv_head) * args.group_size + (first_row + row) % args.group_size) *
           head_dim;
  };

  const SwizzledTile<T, kHeadDim> queries = {reinterpret_cast<T*>(shared)};
  for (int i = threadIdx.x; i < kRows * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const bool inside = !kPadded || chunk * 8 < head_dim;
    const bool valid = row < num_rows;
    const int64_t token = span.first_query + (valid ? query_of(row) : 0);
    const T* from = args.query + token * args.query_stride + (valid ? column_of(row) : 0);
    CopyAsync(queries.Chunk(row, chunk), from + (inside ? chunk * 8 : 0), valid && inside);
  }
  WarpRows<T, kHeadDim, kTiles> rows;
  rows.fewest_keys = span.context;
#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i) {
    const int row = min(warp * kRowsPerWarp + lane / 4 + 8 * i, num_rows - 1);
    const int m = i / 2, h = i % 2;
    rows.maximum[m][h] = -INFINITY;
    rows.total[m][h] = 0.0f;
    rows.position[m][h] = first_position + query_of(row);
    rows.head[m][h] = kv_head * args.group_size + (first_row + row) % args.group_size;
    rows.limit[m][h] = args.causal ? max(0, rows.position[m][h] + 1) : span.context;
    rows.fewest_keys = min(rows.fewest_keys, rows.limit[m][h]);
  }

  const KvRows<T> keys =
      RowsOf(args, args.keys, args.key_stride, sequence, span.first_query, kv_head);
  const KvRows<T> values =
      RowsOf(args, args.values, args.value_stride, sequence, span.first_query, kv_head);
  const int last_position = first_position + query_of(num_rows - 1);
  const int num_keys = args.causal ? max(0, last_position + 1) : span.context;
  const int num_tiles = CeilDiv(num_keys, kKeys);
  const auto key_tile = [&](int tile) {
    return SwizzledTile<T, kHeadDim>{tiles + tile % kStages * 2 * kTileSize};
  };
  const auto value_tile = [&](int tile) {
    return SwizzledTile<T, kHeadDim>{tiles + (tile % kStages * 2 + 1) * kTileSize};
  };
  const auto copy_tiles = [&](int tile) {
    if (tile < num_tiles) {
      const int first_key = tile * kKeys;
      CopyTile<T, kHeadDim, kPadded>(keys, first_key, span.context, head_dim, key_tile(tile));
      CopyTile<T, kHeadDim, kPadded>(values, first_key, span.context, head_dim, value_tile(tile));
    }
    CommitCopies();  // one group per turn, an empty one past the last tile
  };

  copy_tiles(0);  // in one group with the queries
  for (int tile = 0; tile < num_tiles; ++tile) {
    copy_tiles(tile + 1);
    WaitForCopies<1>();
    __syncthreads();
    typename WarpRows<T, kHeadDim, kTiles>::Scores scores = {};
    rows.MultiplyKeys(queries, warp * kRowsPerWarp, key_tile(tile), scores);
    rows.Adjust(args, tile * kKeys, scores);
    rows.Softmax(args.log2_factor, scores);
    rows.AddValues(value_tile(tile), scores);
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2 * kTiles; ++i) {
    const int m = i / 2, h = i % 2;
    float total = rows.total[m][h];
    total += __shfl_xor_sync(kFullMask, total, 1);
    total += __shfl_xor_sync(kFullMask, total, 2);
    const int row = warp * kRowsPerWarp + lane / 4 + 8 * i;
    if (row >= num_rows) continue;
    const float scale = total == 0.0f ? 0.0f : 1.0f / total;  // a query without keys gets zeros
    T* to = args.output + (span.first_query + query_of(row)) * args.output_stride + column_of(row) +
            lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      if (kPadded && 8 * n >= head_dim) break;
      *reinterpret_cast<uint32_t*>(to + 8 * n) =
          PackPair<T>(rows.output[m][n][2 * h] * scale, rows.output[m][n][2 * h + 1] * scale);
    }
  }
}

template <typename T, int kHeadDim, int kTiles, bool kPadded>
void Launch(Device& device, const AttentionArgs<T>& args, const AttentionParams& params) {
  constexpr int kBytes = SharedBytes<T, kHeadDim, kTiles>();
  constexpr int kRows = kTiles * kWarps * 16;
  const auto kernel = TensorCoreKernel<T, kHeadDim, kTiles, kPadded>;
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "Attention (tensor cores): shared memory");
  const int rows = params.max_query_length * args.group_size;
  const dim3 grid(static_cast<unsigned>(CeilDiv(rows, kRows)),
                  static_cast<unsigned>(params.num_kv_heads),
                  static_cast<unsigned>(params.num_sequences));
  kernel<<<grid, kThreads, kBytes, device.stream()>>>(args);
  device.CheckLaunch("Attention (tensor cores)");
}

}  // namespace attention_tensor_core

template <typename T>
void AttendTensorCore(Device& device, const AttentionArgs<T>& args, const AttentionParams& params,
                      int rows_per_block) {
  using attention_tensor_core::Launch;
  const bool small = rows_per_block == kSmallTensorCoreRows;
  const int head_dim = params.head_dim;
  BEAMLINE_CHECK(head_dim % 8 == 0 && head_dim <= 256);
  BEAMLINE_CHECK(small || head_dim == 64 || head_dim == 128);
  if (head_dim == 64) {
    small ? Launch<T, 64, 1, false>(device, args, params)
          : Launch<T, 64, 2, false>(device, args, params);
  } else if (head_dim == 128) {
    small ? Launch<T, 128, 1, false>(device, args, params)
          : Launch<T, 128, 2, false>(device, args, params);
  } else if (head_dim <= 32) {
    Launch<T, 32, 1, true>(device, args, params);
  } else if (head_dim < 64) {
    Launch<T, 64, 1, true>(device, args, params);
  } else if (head_dim <= 96) {
    Launch<T, 96, 1, true>(device, args, params);
  } else if (head_dim < 128) {
    Launch<T, 128, 1, true>(device, args, params);
  } else if (head_dim <= 192) {
    Launch<T, 192, 1, true>(device, args, params);
  } else {
    Launch<T, 256, 1, true>(device, args, params);
  }
}

}  // namespace beamline::cuda
