// Attention in float32 for many query rows: packed and paged prefill. A block computes 64 query
// rows of one key-value head. Keys and values pass through shared memory in tiles. The values are
// copied while the scores are computed, the next keys while the values are added.
// Source: Dao, "FlashAttention-2", arXiv:2307.08691.
#include "base/math.h"
#include "kernels/cuda/attention/attention_args.cuh"
#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/device/mma.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kColumns = 16;                          // threads that share a row
constexpr int kRowStep = kThreads / kColumns;         // distance between the rows of a thread
constexpr int kRowsEach = kFloatTileRows / kRowStep;  // of a thread
constexpr float kLog2E = 1.44269504088896341f;

constexpr int KeysPerTile(int head_dim) { return head_dim <= 64 ? 64 : 32; }

// Shared memory. Rows are padded against bank conflicts: the lanes of a warp read one element of 16
// keys, or of two neighbouring query rows, at once.
template <int kHeadDim>
struct Tiles {
  static constexpr int kKeys = KeysPerTile(kHeadDim);
  static_assert(kHeadDim % 32 == 0);
  using Row = float[kHeadDim + 4];

  Row queries[kFloatTileRows];
  Row keys[kKeys];
  Row values[kKeys];
  float probabilities[kFloatTileRows][kKeys + 16];
};

// Copies `num_rows` rows of a head. from_row(i) returns row i, or null if it does not exist.
// Missing elements become zeros. `readable`: any valid address, for copies of zeros.
template <int kHeadDim, typename FromRow>
__device__ void CopyRows(typename Tiles<kHeadDim>::Row* to, int num_rows, int head_dim,
                         const float* readable, FromRow from_row) {
  constexpr int kChunks = kHeadDim / 4;
  for (int i = threadIdx.x; i < num_rows * kChunks; i += kThreads) {
    const int column = i % kChunks * 4;
    const float* const row = column < head_dim ? from_row(i / kChunks) : nullptr;
    const bool valid = row != nullptr;
    CopyAsync(&to[i / kChunks][column], valid ? row + column : readable, valid);
  }
}

// The location of the block's query rows.
struct BlockRows {
  int first_row, num_rows;
  int group_size, first_head;
  int first_position;  // of the sequence's first query
  int context;
  bool causal;

  __device__ int Query(int row) const { return (first_row + row) / group_size; }
  __device__ int Head(int row) const { return first_head + (first_row + row) % group_size; }
  __device__ int Position(int row) const { return first_position + Query(row); }
  // Keys that the row sees.
  __device__ int Limit(int row) const { return causal ? max(0, Position(row) + 1) : context; }
};

// The rows of one thread: first_row, and every kRowStep-th after it. The thread computes the scores
// of every kColumns-th key and its own columns of the output. Functions process the first kCount
// rows.
template <int kHeadDim>
struct ThreadRows {
  static constexpr int kKeys = KeysPerTile(kHeadDim);
  static constexpr int kKeysEach = kKeys / kColumns;
  static constexpr int kSizeEach = kHeadDim / kColumns;  // elements of a row
  static constexpr int kVec = kSizeEach % 4 == 0 ? 4 : 2;
  using Scores = float[kRowsEach][kKeysEach];

  float output[kRowsEach][kSizeEach] = {};
  float maximum[kRowsEach];     // of score * log2(e)
  float total[kRowsEach] = {};  // of this thread's keys
  int first_row;
  int column;  // 0 .. kColumns - 1

  __device__ ThreadRows() : first_row(threadIdx.x / kColumns), column(threadIdx.x % kColumns) {
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) maximum[i] = -INFINITY;
  }
  __device__ int Row(int i) const { return first_row + i * kRowStep; }
  // The column of the output's element j.
  __device__ int OutputColumn(int j) const {
    return (j / kVec * kColumns + column) * kVec + j % kVec;
  }

  template <int kCount>
  __device__ void MultiplyKeys(const Tiles<kHeadDim>& tiles, Scores& scores) const {
#pragma unroll 4
    for (int d = 0; d < kHeadDim; d += 4) {
      float query[kCount][4], key[kKeysEach][4];
#pragma unroll
      for (int i = 0; i < kCount; ++i) LoadFloats<4>(&tiles.queries[Row(i)][d], query[i]);
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) {
        LoadFloats<4>(&tiles.keys[column + j * kColumns][d], key[j]);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
#pragma unroll
          for (int j = 0; j < kKeysEach; ++j) scores[i][j] += query[i][e] * key[j][e];
        }
      }
    }
  }

  // Edits scores and masks keys.
  template <int kCount>
  __device__ void Adjust(const AttentionArgs<float>& args, const BlockRows& block, int first_key,
                         Scores& scores) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int row = min(Row(i), block.num_rows - 1);
      const int limit = block.Limit(row);
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) {
        const int key = first_key + column + j * kColumns;
        if (EditsScores(args)) {
          scores[i][j] = EditedScore(args, block.Head(row), block.Position(row), key, scores[i][j]);
        }
        if (key >= limit) scores[i][j] = -INFINITY;
      }
    }
  }

  // Converts scores to probabilities, relative to the running maximum. They go to shared memory,
  // because the threads that share a row, half a warp, read each other's.
  template <int kCount>
  __device__ void Softmax(Scores& scores, Tiles<kHeadDim>& tiles) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float tile_maximum = -INFINITY;
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) tile_maximum = fmaxf(tile_maximum, scores[i][j]);
#pragma unroll
      for (int offset = kColumns / 2; offset > 0; offset /= 2) {
        tile_maximum = fmaxf(tile_maximum, __shfl_xor_sync(kFullMask, tile_maximum, offset));
      }
      const float new_maximum = fmaxf(maximum[i], tile_maximum * kLog2E);
      // While a row has seen no key, every exponential is 0.
      const float shift = new_maximum == -INFINITY ? 0.0f : new_maximum;
      const float decay = exp2f(maximum[i] - shift);
      maximum[i] = new_maximum;
      total[i] *= decay;
#pragma unroll
      for (int j = 0; j < kKeysEach; ++j) {
        const float probability = exp2f(scores[i][j] * kLog2E - shift);
        total[i] += probability;
        tiles.probabilities[Row(i)][column + j * kColumns] = probability;
      }
#pragma unroll
      for (int j = 0; j < kSizeEach; ++j) output[i][j] *= decay;
    }
    __syncwarp();
  }

  template <int kCount>
  __device__ void AddValues(const Tiles<kHeadDim>& tiles) {
#pragma unroll 2
    for (int key = 0; key < kKeys; key += 4) {
      float probability[kCount][4];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        LoadFloats<4>(&tiles.probabilities[Row(i)][key], probability[i]);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int j = 0; j < kSizeEach; j += kVec) {
          float value[kVec];
          LoadFloats<kVec>(&tiles.values[key + e][OutputColumn(j)], value);
#pragma unroll
          for (int i = 0; i < kCount; ++i) {
#pragma unroll
            for (int k = 0; k < kVec; ++k) output[i][j + k] += probability[i][e] * value[k];
          }
        }
      }
    }
  }

  __device__ void Store(const AttentionArgs<float>& args, const BlockRows& block,
                        int first_query) const {
#pragma unroll
    for (int i = 0; i < kRowsEach; ++i) {
      float sum = total[i];
#pragma unroll
      for (int offset = kColumns / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(kFullMask, sum, offset);
      }
      if (Row(i) >= block.num_rows) continue;
      const float scale = sum == 0.0f ? 0.0f : 1.0f / sum;  // a query without keys gets zeros
      float* const to = args.output + (first_query + block.Query(Row(i))) * args.output_stride +
                        static_cast<int64_t>(block.Head(Row(i))) * args.head_dim;
#pragma unroll
      for (int j = 0; j < kSizeEach; j += kVec) {
        float values[kVec];
#pragma unroll
        for (int k = 0; k < kVec; ++k) values[k] = output[i][j + k] * scale;
        if (OutputColumn(j) < args.head_dim) StoreFloats<kVec>(values, to + OutputColumn(j));
      }
    }
  }
};

// Grid: (blocks of query rows, key-value heads, sequences), three blocks per multiprocessor (two
// for heads of more than 96). Shared memory: Tiles. Bound by the multiply-adds: 2 * rows * keys *
// head_dim per head.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 3) TilesKernel(AttentionArgs<float> args) {
  extern __shared__ __align__(128) unsigned char shared[];
  Tiles<kHeadDim>& tiles = *reinterpret_cast<Tiles<kHeadDim>*>(shared);
  constexpr int kKeys = KeysPerTile(kHeadDim);
  const int sequence = blockIdx.z;
  const int kv_head = blockIdx.y;
  const SequenceSpan span = SpanOf(args, sequence);
  BlockRows block;
  // The last rows come first, because with a causal mask they have the most keys.
  block.first_row = (gridDim.x - 1 - blockIdx.x) * kFloatTileRows;
  block.num_rows = min(kFloatTileRows, span.query_length * args.group_size - block.first_row);
  if (block.num_rows <= 0) return;
  block.group_size = args.group_size;
  block.first_head = kv_head * args.group_size;
  block.first_position = span.context - span.query_length;
  block.context = span.context;
  block.causal = args.causal;
  const int num_keys = block.Limit(block.num_rows - 1);
  const int num_tiles = CeilDiv(num_keys, kKeys);
  // The first row sees the fewest keys.
  const int whole_keys = EditsScores(args) ? 0 : block.Limit(0);

  const auto query_row = [&](int row) -> const float* {
    if (row >= block.num_rows) return nullptr;
    return args.query + (span.first_query + block.Query(row)) * args.query_stride +
           static_cast<int64_t>(block.Head(row)) * args.head_dim;
  };
  const KvRows<float> keys =
      RowsOf(args, args.keys, args.key_stride, sequence, span.first_query, kv_head);
  const KvRows<float> values =
      RowsOf(args, args.values, args.value_stride, sequence, span.first_query, kv_head);
  const auto copy = [&](const KvRows<float>& rows, int tile, typename Tiles<kHeadDim>::Row* to) {
    if (tile < num_tiles) {
      CopyRows<kHeadDim>(to, kKeys, args.head_dim, args.query, [&](int row) -> const float* {
        const int position = tile * kKeys + row;
        return position < span.context ? rows.Row(position) : nullptr;
      });
    }
    CommitCopies();  // one group per turn, an empty one past the last tile
  };

  ThreadRows<kHeadDim> rows;
  const auto attend = [&]<int kCount>(int tile) {
    typename ThreadRows<kHeadDim>::Scores scores = {};
    rows.template MultiplyKeys<kCount>(tiles, scores);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < ThreadRows<kHeadDim>::kKeysEach; ++j) scores[i][j] *= args.scale;
    }
    const int first_key = tile * kKeys;
    if (first_key + kKeys > whole_keys) {
      rows.template Adjust<kCount>(args, block, first_key, scores);
    }
    __syncthreads();
    copy(keys, tile + 1, tiles.keys);
    rows.template Softmax<kCount>(scores, tiles);
    WaitForCopies<1>();  // the values have arrived
    __syncthreads();
    rows.template AddValues<kCount>(tiles);
  };

  CopyRows<kHeadDim>(tiles.queries, kFloatTileRows, args.head_dim, args.query, query_row);
  copy(keys, 0, tiles.keys);  // in one group with the queries
  for (int tile = 0; tile < num_tiles; ++tile) {
    copy(values, tile, tiles.values);
    WaitForCopies<1>();  // the keys have arrived
    __syncthreads();
    if (block.num_rows <= kRowStep) {  // a decoding sequence in a mixed batch
      attend.template operator()<1>(tile);
    } else {
      attend.template operator()<kRowsEach>(tile);
    }
    __syncthreads();
  }
  rows.Store(args, block, span.first_query);
}

template <int kHeadDim>
void Launch(Device& device, const AttentionArgs<float>& args, const AttentionParams& params) {
  constexpr int kBytes = sizeof(Tiles<kHeadDim>);
  static_assert(kBytes <= 99 << 10);  // limit of a block on sm_86
  device.Check(cudaFuncSetAttribute(TilesKernel<kHeadDim>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "Attention (tiles): shared memory");
  const int rows = params.max_query_length * args.group_size;
  const dim3 grid(static_cast<unsigned>(CeilDiv(rows, kFloatTileRows)),
                  static_cast<unsigned>(params.num_kv_heads),
                  static_cast<unsigned>(params.num_sequences));
  TilesKernel<kHeadDim><<<grid, kThreads, kBytes, device.stream()>>>(args);
  device.CheckLaunch("Attention (tiles)");
}

}  // namespace

void AttendTiles(Device& device, const AttentionArgs<float>& args, const AttentionParams& params) {
  BEAMLINE_CHECK(params.head_dim % 4 == 0 && params.head_dim <= kMostFloatTileHeadDim);
  if (params.head_dim <= 32) {
    Launch<32>(device, args, params);
  } else if (params.head_dim <= 64) {
    Launch<64>(device, args, params);
  } else if (params.head_dim <= 96) {
    Launch<96>(device, args, params);
  } else {
    Launch<128>(device, args, params);
  }
}

}  // namespace beamline::cuda
