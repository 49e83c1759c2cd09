// Attention on tensor cores (sm_80 and newer): packed and paged prefill in float16 and bfloat16.
// A block computes 64 query rows of one key-value head; keys and values stream through shared
// memory 64 at a time, the next tile on its way while this one is used.
// Source: Dao, "FlashAttention-2", arXiv:2307.08691.
#include "kernels/cuda/attention_args.cuh"
#include "kernels/cuda/attention_picker.h"
#include "kernels/cuda/mma.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kRowsPerWarp = 16;
constexpr int kKeys = 64;  // of a tile
constexpr int kStages = 2;
constexpr float kLog2E = 1.44269504088896341f;
static_assert(kTensorCoreRows == kWarps * kRowsPerWarp);

template <typename T, int kHeadDim>
constexpr int SharedBytes() {
  return 2 * kStages * kKeys * kHeadDim * static_cast<int>(sizeof(T));
}

// Copies kKeys rows of keys or values into a tile; rows past the context become zeros.
template <typename T, int kHeadDim>
__device__ void CopyTile(const KvRows<T>& rows, int first, int context,
                         SwizzledTile<T, kHeadDim> tile) {
  constexpr int kChunks = kHeadDim / 8;
#pragma unroll
  for (int i = threadIdx.x; i < kKeys * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const int chunk = i % kChunks;
    const bool valid = first + row < context;
    const T* from = rows.Row(valid ? first + row : 0) + chunk * 8;
    CopyAsync(tile.Chunk(row, chunk), from, valid);
  }
}

// The part of a 64-row tile that one warp computes: 16 query rows. A lane holds parts of two of
// them, lane / 4 and lane / 4 + 8.
template <typename T, int kHeadDim>
struct WarpRows {
  uint32_t query[kHeadDim / 16][4];
  float output[kHeadDim / 8][4] = {};
  float maximum[2] = {-INFINITY, -INFINITY};  // of score * log2(e)
  float total[2] = {};                        // this lane's part
  int position[2], head[2];
  int limit[2];  // keys that the row sees

  __device__ void LoadQuery(SwizzledTile<T, kHeadDim> tile, int first_row) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int k = 0; k < kHeadDim / 16; ++k) {
      LoadMatrices(tile.Chunk(first_row + lane % 16, 2 * k + lane / 16), query[k]);
    }
  }

  __device__ void Scores(SwizzledTile<T, kHeadDim> keys, float (&scores)[kKeys / 8][4]) const {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int n = 0; n < kKeys / 16; ++n) {
#pragma unroll
      for (int k = 0; k < kHeadDim / 16; ++k) {
        uint32_t b[4];
        LoadMatrices(keys.Chunk(16 * n + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2), b);
        MultiplyAdd<T>(query[k], b[0], b[1], scores[2 * n]);
        MultiplyAdd<T>(query[k], b[2], b[3], scores[2 * n + 1]);
      }
    }
  }

  // Biases and masks, where a tile needs them.
  __device__ void Adjust(const AttentionArgs<T>& args, int first_key,
                         float (&scores)[kKeys / 8][4]) const {
    const bool biased = HasBias(args);
    if (!biased && first_key + kKeys <= min(limit[0], limit[1])) return;
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = first_key + 8 * n + lane % 4 * 2 + i % 2;
        if (biased) scores[n][i] += BiasOf(args, head[i / 2], position[i / 2], key);
        if (key >= limit[i / 2]) scores[n][i] = -INFINITY;
      }
    }
  }

  // Scores to probabilities relative to the running maximum.
  __device__ void Softmax(float (&scores)[kKeys / 8][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float tile_maximum = -INFINITY;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
        tile_maximum = fmaxf(tile_maximum, fmaxf(scores[n][2 * h], scores[n][2 * h + 1]));
      }
      tile_maximum = fmaxf(tile_maximum, __shfl_xor_sync(kFullMask, tile_maximum, 1));
      tile_maximum = fmaxf(tile_maximum, __shfl_xor_sync(kFullMask, tile_maximum, 2));
      const float new_maximum = fmaxf(maximum[h], tile_maximum * kLog2E);
      // While a row has seen no key, every exponential is 0.
      const float shift = new_maximum == -INFINITY ? 0.0f : new_maximum;
      const float decay = exp2f(maximum[h] - shift);
      maximum[h] = new_maximum;
      total[h] *= decay;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          scores[n][i] = exp2f(scores[n][i] * kLog2E - shift);
          total[h] += scores[n][i];
        }
      }
#pragma unroll
      for (int n = 0; n < kHeadDim / 8; ++n) {
        output[n][2 * h] *= decay;
        output[n][2 * h + 1] *= decay;
      }
    }
  }

  __device__ void AddValues(SwizzledTile<T, kHeadDim> values,
                            const float (&probabilities)[kKeys / 8][4]) {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      const float(&low)[4] = probabilities[2 * k];
      const float(&high)[4] = probabilities[2 * k + 1];
      const uint32_t a[4] = {PackPair<T>(low[0], low[1]), PackPair<T>(low[2], low[3]),
                             PackPair<T>(high[0], high[1]), PackPair<T>(high[2], high[3])};
#pragma unroll
      for (int n = 0; n < kHeadDim / 16; ++n) {
        uint32_t b[4];
        LoadMatricesTransposed(values.Chunk(16 * k + lane % 16, 2 * n + lane / 16), b);
        MultiplyAdd<T>(a, b[0], b[1], output[2 * n]);
        MultiplyAdd<T>(a, b[2], b[3], output[2 * n + 1]);
      }
    }
  }
};

// Grid: (tiles of 64 query rows, key-value heads, sequences); shared memory: two stages of keys and
// values, 32 KiB for 64 elements a head, 64 KiB for 128. Bound by the tensor cores for long
// sequences: 4 * rows * keys * head_dim operations a head.
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads) TensorCoreKernel(AttentionArgs<T> args) {
  extern __shared__ __align__(128) unsigned char shared[];
  T* const tiles = reinterpret_cast<T*>(shared);
  constexpr int kTileSize = kKeys * kHeadDim;
  constexpr int kChunks = kHeadDim / 8;
  const int sequence = blockIdx.z;
  const int kv_head = blockIdx.y;
  const int first_row = blockIdx.x * kTensorCoreRows;
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const SequenceSpan span = SpanOf(args, sequence);
  const int num_rows = min(kTensorCoreRows, span.query_length * args.group_size - first_row);
  if (num_rows <= 0) return;
  const int first_position = span.context - span.query_length;
  const auto query_of = [&](int row) { return (first_row + row) / args.group_size; };
  const auto column_of = [&](int row) {
    return (static_cast<int64_t>(kv_head) * args.group_size + (first_row + row) % args.group_size) *
           kHeadDim;
  };

  // The queries pass through the first stage's keys.
  const SwizzledTile<T, kHeadDim> query_tile = {tiles};
  for (int i = threadIdx.x; i < kTensorCoreRows * kChunks; i += kThreads) {
    const int row = i / kChunks;
    const bool valid = row < num_rows;
    const int64_t token = span.first_query + (valid ? query_of(row) : 0);
    const T* from = args.query + token * args.query_stride + (valid ? column_of(row) : 0);
    CopyAsync(query_tile.Chunk(row, i % kChunks), from + i % kChunks * 8, valid);
  }
  CommitCopies();
  WaitForCopies<0>();
  __syncthreads();
  WarpRows<T, kHeadDim> rows;
  rows.LoadQuery(query_tile, warp * kRowsPerWarp);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = min(warp * kRowsPerWarp + lane / 4 + 8 * h, num_rows - 1);
    rows.position[h] = first_position + query_of(row);
    rows.head[h] = kv_head * args.group_size + (first_row + row) % args.group_size;
    rows.limit[h] = args.causal ? max(0, rows.position[h] + 1) : span.context;
  }
  __syncthreads();

  const KvRows<T> keys =
      RowsOf(args, args.keys, args.key_stride, sequence, span.first_query, kv_head);
  const KvRows<T> values =
      RowsOf(args, args.values, args.value_stride, sequence, span.first_query, kv_head);
  const int last_position = first_position + query_of(num_rows - 1);
  const int num_keys = args.causal ? max(0, last_position + 1) : span.context;
  const int num_tiles = (num_keys + kKeys - 1) / kKeys;
  const auto key_tile = [&](int tile) {
    return SwizzledTile<T, kHeadDim>{tiles + tile % kStages * 2 * kTileSize};
  };
  const auto value_tile = [&](int tile) {
    return SwizzledTile<T, kHeadDim>{tiles + (tile % kStages * 2 + 1) * kTileSize};
  };
  const auto copy_tiles = [&](int tile) {
    if (tile < num_tiles) {
      CopyTile<T, kHeadDim>(keys, tile * kKeys, span.context, key_tile(tile));
      CopyTile<T, kHeadDim>(values, tile * kKeys, span.context, value_tile(tile));
    }
    CommitCopies();  // an empty group keeps the count
  };

  copy_tiles(0);
  for (int tile = 0; tile < num_tiles; ++tile) {
    copy_tiles(tile + 1);
    WaitForCopies<1>();
    __syncthreads();
    float scores[kKeys / 8][4] = {};
    rows.Scores(key_tile(tile), scores);
    rows.Adjust(args, tile * kKeys, scores);
    rows.Softmax(scores);
    rows.AddValues(value_tile(tile), scores);
    __syncthreads();
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float total = rows.total[h];
    total += __shfl_xor_sync(kFullMask, total, 1);
    total += __shfl_xor_sync(kFullMask, total, 2);
    const int row = warp * kRowsPerWarp + lane / 4 + 8 * h;
    if (row >= num_rows) continue;
    const float scale = total == 0.0f ? 0.0f : 1.0f / total;  // a query without keys gets zeros
    T* to = args.output + (span.first_query + query_of(row)) * args.output_stride + column_of(row) +
            lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
      *reinterpret_cast<uint32_t*>(to + 8 * n) =
          PackPair<T>(rows.output[n][2 * h] * scale, rows.output[n][2 * h + 1] * scale);
    }
  }
}

template <typename T, int kHeadDim>
void Launch(Device& device, const AttentionArgs<T>& args, const AttentionParams& params) {
  constexpr int kBytes = SharedBytes<T, kHeadDim>();
  device.Check(cudaFuncSetAttribute(TensorCoreKernel<T, kHeadDim>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "Attention (tensor cores): shared memory");
  const int rows = params.max_query_length * args.group_size;
  const dim3 grid(static_cast<unsigned>((rows + kTensorCoreRows - 1) / kTensorCoreRows),
                  static_cast<unsigned>(params.num_kv_heads),
                  static_cast<unsigned>(params.num_sequences));
  TensorCoreKernel<T, kHeadDim><<<grid, kThreads, kBytes, device.stream()>>>(args);
}

}  // namespace

template <typename T>
void AttendTensorCore(Device& device, const AttentionArgs<T>& args, const AttentionParams& params) {
  if (params.head_dim == 64) {
    Launch<T, 64>(device, args, params);
  } else {
    Launch<T, 128>(device, args, params);
  }
  device.CheckLaunch("Attention (tensor cores)");
}

template void AttendTensorCore(Device&, const AttentionArgs<__half>&, const AttentionParams&);
template void AttendTensorCore(Device&, const AttentionArgs<__nv_bfloat16>&,
                               const AttentionParams&);

}  // namespace beamline::cuda
