// Disentangled attention (RelativePositions) of packed texts. A block computes 64 query rows of one
// head, in float32 for all types. Keys pass through shared memory 64 at a time, together with the
// position rows of the 127 distances between these keys and the queries. Both are transposed, 32
// elements of a head at a time. A thread's scores of 4 queries and 4 keys read 7 distances.
#include "base/math.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_args.cuh"
#include "kernels/cuda/attention/attention_picker.h"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRows = kDisentangledRows;  // queries of a block
constexpr int kKeys = 64;                 // at a time
constexpr int kDistances = kRows + kKeys;
constexpr int kDims = 32;     // elements of a head at a time
constexpr int kColumns = 64;  // of values at a time
constexpr int kEach = 4;      // queries, and keys or columns, of a thread

// Rows are padded so that a warp that writes 8 elements of 4 rows uses 32 banks.
struct Stage {
  float queries[kDims][kRows + 4];
  float keys[kDims][kKeys + 4];
  float position_keys[kDims][kDistances + 4];
  float position_queries[kDims][kDistances + 4];
};
struct Shared {
  union {
    Stage stage;
    float values[kKeys][kColumns + 4];
  };
  float scores[kRows][kKeys + 4];
  float decays[kRows];  // factor of a new maximum for earlier sums
  float totals[kRows];
  int distance_rows[kDistances];  // of RelativePositions
};

// to[d][i] = element d of row_of(i), or 0 if row_of(i) is null: the row does not exist.
template <int kCount, int kStride, typename T, typename Row>
__device__ void LoadTransposed(float (&to)[kDims][kStride], int num_dims, Row row_of) {
  constexpr int kDimsOfWarp = 8, kRowsOfWarp = kWarpSize / kDimsOfWarp;
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int d0 = lane % kDimsOfWarp;
  for (int i = warp * kRowsOfWarp + lane / kDimsOfWarp; i < kCount;
       i += kThreads / kWarpSize * kRowsOfWarp) {
    const T* const row = row_of(i);
#pragma unroll
    for (int d = d0; d < kDims; d += kDimsOfWarp) {
      to[d][i] = row != nullptr && d < num_dims ? ToFloat(row[d]) : 0.0f;
    }
  }
}

// The location of a block's rows.
template <typename T>
struct Place {
  SequenceSpan span;
  int first_query;  // index within the sequence
  int64_t column;   // of the head's first element

  __device__ const T* Row(const T* base, int64_t stride, int position) const {
    if (position >= span.query_length) return nullptr;
    return base + (span.first_query + position) * stride + column;
  }
};

// The thread's scores, before the scale, of 4 queries from 4 * row on and 4 keys from 4 * key on.
template <typename T>
__device__ void ComputeScores(const AttentionArgs<T>& args, const Place<T>& place, int first_key,
                              int row, int key, Shared& shared, float (&scores)[kEach][kEach]) {
  Stage& stage = shared.stage;
  const bool has_keys = args.position_keys != nullptr;
  const bool has_queries = args.position_queries != nullptr;
  const int first_distance = kEach * (key - row) + kRows - kEach;
  for (int d0 = 0; d0 < args.head_dim; d0 += kDims) {
    const int num_dims = min(kDims, args.head_dim - d0);
    __syncthreads();  // all threads have read the previous content
    LoadTransposed<kRows, kRows + 4, T>(stage.queries, num_dims, [&](int i) {
      const T* const from = place.Row(args.query, args.query_stride, place.first_query + i);
      return from == nullptr ? nullptr : from + d0;
    });
    LoadTransposed<kKeys, kKeys + 4, T>(stage.keys, num_dims, [&](int i) {
      const T* const from = place.Row(args.keys, args.key_stride, first_key + i);
      return from == nullptr ? nullptr : from + d0;
    });
    const int64_t column = place.column + d0;
    LoadTransposed<kDistances, kDistances + 4, T>(stage.position_keys, num_dims, [&](int i) {
      const int64_t from = shared.distance_rows[i] * args.position_key_stride + column;
      return has_keys ? args.position_keys + from : nullptr;
    });
    LoadTransposed<kDistances, kDistances + 4, T>(stage.position_queries, num_dims, [&](int i) {
      const int64_t from = shared.distance_rows[i] * args.position_query_stride + column;
      return has_queries ? args.position_queries + from : nullptr;
    });
    __syncthreads();
#pragma unroll 4
    for (int d = 0; d < kDims; ++d) {
      float q[kEach], k[kEach], of_query[2 * kEach], of_key[2 * kEach];
      LoadFloats<kEach>(&stage.queries[d][kEach * row], q);
      LoadFloats<kEach>(&stage.keys[d][kEach * key], k);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float part[kEach];
        LoadFloats<kEach>(&stage.position_keys[d][first_distance + half * kEach], part);
#pragma unroll
        for (int i = 0; i < kEach; ++i) of_query[half * kEach + i] = part[i];
        LoadFloats<kEach>(&stage.position_queries[d][first_distance + half * kEach], part);
#pragma unroll
        for (int i = 0; i < kEach; ++i) of_key[half * kEach + i] = part[i];
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) {
          const int distance = j - i + kEach - 1;
          scores[i][j] += q[i] * (k[j] + of_query[distance]) + k[j] * of_key[distance];
        }
      }
    }
  }
}

// Stores the thread's scores in shared memory: edited, masked, and as exponents of 2.
template <typename T>
__device__ void StoreScores(const AttentionArgs<T>& args, const Place<T>& place, int first_key,
                            int row, int key, const float (&scores)[kEach][kEach], Shared& shared) {
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int position = place.first_query + kEach * row + i;
    const int begin = KeysBegin(args, position);
    const int end = KeysEnd(args, position, place.span.context);
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int at = first_key + kEach * key + j;
      float score = -INFINITY;
      if (at >= begin && at < end) {
        score = EditsScores(args) ? EditedScore(args, static_cast<int>(blockIdx.y), position, at,
                                                scores[i][j] * args.scale)
                                  : scores[i][j];
        score *= args.log2_factor;
      }
      shared.scores[kEach * row + i][kEach * key + j] = score;
    }
  }
}

// Converts the scores of a warp's rows to probabilities, relative to each row's running maximum.
__device__ void UpdateSoftmax(Shared& shared, float (&maxima)[kRows / (kThreads / kWarpSize)]) {
  constexpr int kWarps = kThreads / kWarpSize;
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
#pragma unroll
  for (int i = 0; i < kRows / kWarps; ++i) {
    const int row = warp * (kRows / kWarps) + i;
    float* const scores = shared.scores[row];
    const float first = scores[lane], second = scores[lane + kWarpSize];
    const float maximum = fmaxf(maxima[i], WarpMax(fmaxf(first, second)));
    // A row that has seen no key keeps zeros.
    const float shift = maximum == -INFINITY ? 0.0f : maximum;
    const float p = exp2f(first - shift), other = exp2f(second - shift);
    scores[lane] = p;
    scores[lane + kWarpSize] = other;
    const float total = WarpSum(p + other);
    if (lane == 0) {
      const float decay = exp2f(maxima[i] - shift);
      shared.decays[row] = decay;
      shared.totals[row] = shared.totals[row] * decay + total;
    }
    maxima[i] = maximum;
  }
}

// Grid: (tiles of the longest sequence's queries, heads, sequences). Bound by multiply-adds outside
// of tensor cores: 9 flops per element of a head and per pair of tokens.
template <typename T, int kChunks>
__global__ void __launch_bounds__(kThreads) DisentangledKernel(AttentionArgs<T> args) {
  extern __shared__ float4 memory[];
  Shared& shared = *reinterpret_cast<Shared*>(memory);
  Place<T> place;
  place.span = SpanOf(args, static_cast<int>(blockIdx.z));
  place.first_query = static_cast<int>(blockIdx.x) * kRows;
  if (place.first_query >= place.span.query_length) return;
  place.column = static_cast<int64_t>(blockIdx.y) * args.head_dim;
  // A warp is 8 x 4 threads, so that it reads few distances at a time.
  const int lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const int key = lane % 8 + warp % 2 * 8, row = lane / 8 + warp / 2 * 4;
  if (threadIdx.x < kRows) shared.totals[threadIdx.x] = 0.0f;
  float maxima[kRows / (kThreads / kWarpSize)];
#pragma unroll
  for (float& maximum : maxima) maximum = -INFINITY;
  float sums[kChunks][kEach][kEach] = {};

  for (int first_key = 0; first_key < place.span.context; first_key += kKeys) {
    if (threadIdx.x < kDistances) {
      const int distance =
          first_key - place.first_query + static_cast<int>(threadIdx.x) - (kRows - 1);
      shared.distance_rows[threadIdx.x] = PositionRow(args, 0, distance);
    }
    float scores[kEach][kEach] = {};
    ComputeScores(args, place, first_key, row, key, shared, scores);
    StoreScores(args, place, first_key, row, key, scores, shared);
    __syncthreads();
    UpdateSoftmax(shared, maxima);
    __syncthreads();
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int column = chunk * kColumns;
      for (int i = threadIdx.x; i < kKeys * kColumns; i += kThreads) {
        const int c = i % kColumns;
        const T* const from = place.Row(args.values, args.value_stride, first_key + i / kColumns);
        const bool exists = from != nullptr && column + c < args.head_dim;
        shared.values[i / kColumns][c] = exists ? ToFloat(from[column + c]) : 0.0f;
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float decay = shared.decays[kEach * row + i];
#pragma unroll
        for (int c = 0; c < kEach; ++c) sums[chunk][i][c] *= decay;
      }
      for (int j = 0; j < kKeys; ++j) {
        float v[kEach];
        LoadFloats<kEach>(&shared.values[j][kEach * key], v);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const float p = shared.scores[kEach * row + i][j];
#pragma unroll
          for (int c = 0; c < kEach; ++c) sums[chunk][i][c] += p * v[c];
        }
      }
      __syncthreads();
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int position = place.first_query + kEach * row + i;
    if (position >= place.span.query_length) break;
    const float total = shared.totals[kEach * row + i];
    const float scale = total == 0.0f ? 0.0f : 1.0f / total;  // a query without keys gets zeros
    T* const to = args.output + (place.span.first_query + position) * args.output_stride;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
#pragma unroll
      for (int c = 0; c < kEach; ++c) {
        const int column = chunk * kColumns + kEach * key + c;
        if (column >= args.head_dim) continue;
        to[place.column + column] = FromFloat<T>(sums[chunk][i][c] * scale);
      }
    }
  }
}

template <typename T, int kChunks>
void Launch(Device& device, const AttentionArgs<T>& args, const AttentionParams& params) {
  constexpr int kBytes = sizeof(Shared);
  static_assert(kBytes <= 99 << 10);  // limit of a block on sm_86
  device.Check(cudaFuncSetAttribute(DisentangledKernel<T, kChunks>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "Attention (disentangled): shared memory");
  const dim3 grid(static_cast<unsigned>(CeilDiv(params.max_query_length, kRows)),
                  static_cast<unsigned>(params.num_heads),
                  static_cast<unsigned>(params.num_sequences));
  DisentangledKernel<T, kChunks><<<grid, kThreads, kBytes, device.stream()>>>(args);
  device.CheckLaunch("Attention (disentangled)");
}

}  // namespace

template <typename T>
void AttendDisentangled(Device& device, const AttentionArgs<T>& args,
                        const AttentionParams& params) {
  BEAMLINE_CHECK(params.head_dim <= kMostHeadDim);
  if (params.head_dim <= kColumns) {
    Launch<T, 1>(device, args, params);
  } else if (params.head_dim <= 2 * kColumns) {
    Launch<T, 2>(device, args, params);
  } else {
    Launch<T, 4>(device, args, params);
  }
}

template void AttendDisentangled(Device&, const AttentionArgs<float>&, const AttentionParams&);
template void AttendDisentangled(Device&, const AttentionArgs<__half>&, const AttentionParams&);
template void AttendDisentangled(Device&, const AttentionArgs<__nv_bfloat16>&,
                                 const AttentionParams&);

}  // namespace beamline::cuda
