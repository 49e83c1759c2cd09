// Attention for few query rows: decoding, short chunks, and float32 prefill of large heads.
// Flash-decoding: the keys of a sequence are split over blocks if there are too few rows to fill
// the GPU.
// Source: Dao et al., "Flash-Decoding", 2023.
#pragma once

#include <climits>

#include "base/math.h"
#include "kernels/cuda/attention/attention_partial.cuh"
#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/device/launch.cuh"

namespace beamline::cuda {
namespace attention_rows {

// The unfinished softmax of each split. MergeSplitsKernel merges them.
struct Splits {
  int count;
  float* sums;      // [num_tokens, num_heads, count, head_dim]; null with one split
  float2* weights;  // [num_tokens, num_heads, count]: maximum, sum of exponentials
};

// One element of a row, from the warps' unfinished softmaxes.
template <typename T, int kWarps, int kRows, int kWidth>
__device__ Partial<1> MergeWarps(const float (&sums)[kWarps][kRows][kWidth],
                                 const float2 (&weights)[kWarps][kRows], int r, int column) {
  Partial<1> merged;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) merged.maximum = fmaxf(merged.maximum, weights[w][r].x);
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    if (weights[w][r].x == -INFINITY) continue;
    const float weight = Exp<T>(weights[w][r].x - merged.maximum);
    merged.total += weights[w][r].y * weight;
    merged.sum[0] += sums[w][r][column] * weight;
  }
  return merged;
}

// Blocks per multiprocessor. Blocks of one row have some 24 warps together, as many as their
// registers allow.
template <int kWidth, int kRows, bool kEdits, int kWarps, bool kEarly>
constexpr int kFewestBlocks = kRows > 1 || (kEarly && (kWarps == kFewRowWarps || kWidth == 256)) ? 1
                              : kWidth == 256 ? 20 / kWarps
                              : kEdits        ? 24 / kWarps
                                              : 28 / kWarps;

// Loads the keys and values of a pass: every kStep-th key from `first` on, before `end`.
template <int kStep, typename T, int kWidth>
__device__ void LoadPass(const KvPages<T>& pages, const LaneColumns<T, kWidth>& columns, int first,
                         int end, Slice<T, kWidth> (&keys)[kKeysInFlight],
                         Slice<T, kWidth> (&values)[kKeysInFlight]) {
  int32_t entries[kKeysInFlight];
#pragma unroll
  for (int i = 0; i < kKeysInFlight; ++i) entries[i] = pages.Entry(first + i * kStep);
#pragma unroll
  for (int i = 0; i < kKeysInFlight; ++i) {
    const int key = first + i * kStep;
    pages.Load(key, entries[i], columns, key < end, keys[i], values[i]);
  }
}

// The same before WaitForEarlierKernels, which it calls. Only the keys from `known` on are loaded
// after that.
template <int kStep, typename T, int kWidth>
__device__ void LoadFirstPass(const KvPages<T>& pages, const LaneColumns<T, kWidth>& columns,
                              int first, int known, int end,
                              Slice<T, kWidth> (&keys)[kKeysInFlight],
                              Slice<T, kWidth> (&values)[kKeysInFlight]) {
  int32_t entries[kKeysInFlight];
#pragma unroll
  for (int i = 0; i < kKeysInFlight; ++i) entries[i] = pages.EarlyEntry(first + i * kStep);
  const auto load = [&](int from, int to) {
#pragma unroll
    for (int i = 0; i < kKeysInFlight; ++i) {
      const int key = first + i * kStep;
      pages.LoadPastL1(key, entries[i], columns, key >= from && key < to, keys[i], values[i]);
    }
  };
  load(0, min(known, end));
  WaitForEarlierKernels();
  load(known, end);
}

// Stores a lane's elements of a row's sums.
template <typename T, int kWidth, int kSize>
__device__ void StoreSums(const LaneColumns<T, kWidth>& columns, const Partial<kSize>& partial,
                          float (&sums)[kWidth]) {
  constexpr int kPart = LaneColumns<T, kWidth>::kPart;
#pragma unroll
  for (int p = 0; p < LaneColumns<T, kWidth>::kParts; ++p) {
    if (!columns.exists[p]) continue;
#pragma unroll
    for (int j = 0; j < kPart; ++j) sums[columns.first[p] + j] = partial.sum[p * kPart + j];
  }
}

// kLanes lanes share a key. Each loads 16 or 32 bytes of the key and of its value. The lanes of a
// warp, and the warps, take different keys and merge their softmaxes at the end.
// Grid: (row blocks x splits, key-value heads, sequences). Shared memory: a head for each warp and
// row. Bound by memory when decoding: every key and value is read once for kRows query rows. With
// kEarly (one row, and keys in the cache) the first pass is loaded before WaitForEarlierKernels.
// The keys of the sequence's own rows are not, because the previous kernel writes them.
template <typename T, int kWidth, int kRows, bool kEdits, int kWarps, bool kEarly>
__global__ void __launch_bounds__(kWarps* kWarpSize,
                                  kFewestBlocks<kWidth, kRows, kEdits, kWarps, kEarly>)
    RowsKernel(AttentionArgs<T> args, Splits splits) {
  using Columns = LaneColumns<T, kWidth>;
  constexpr int kLanes = Columns::kLanes, kSize = Columns::kSize;
  constexpr int kKeysPerWarp = kWarpSize / kLanes;
  constexpr int kKeysPerStep = kKeysPerWarp * kWarps;
  constexpr int kKeysPerPass = kKeysPerStep * kKeysInFlight;
  __shared__ float sums[kWarps][kRows][kWidth];
  __shared__ float2 weights[kWarps][kRows];
  if constexpr (!kEarly) WaitForEarlierKernels();
  const int sequence = blockIdx.z;
  const int kv_head = blockIdx.y;
  const int split = blockIdx.x % splits.count;
  const int first_row = blockIdx.x / splits.count * kRows;
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const SequenceSpan span = kEarly ? EarlySpanOf(args, sequence) : SpanOf(args, sequence);
  const int num_rows = min(kRows, span.query_length * args.group_size - first_row);
  if (num_rows <= 0) {
    if constexpr (kEarly) WaitForEarlierKernels();
    return;
  }
  const Columns columns(args.head_dim);
  const KvPages<T> pages = PagesOf(args, sequence, span.first_query, kv_head);
  const auto head_of = [&](int r) {
    return kv_head * args.group_size + (first_row + r) % args.group_size;
  };
  const auto query_of = [&](int r) { return (first_row + r) / args.group_size; };

  int next[kRows] = {};  // the position after a row's own
  int most_keys = 0, first_key = INT_MAX;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= num_rows) break;
    const int position = span.context - span.query_length + query_of(r);
    next[r] = position + 1;
    most_keys = max(most_keys, KeysEnd(args, position, span.context));
    first_key = min(first_key, KeysBegin(args, position));
  }
  // Splits divide the whole context, so that they do not depend on the row block.
  const int keys_per_split = RoundUp(CeilDiv(span.context, splits.count), kKeysPerStep);
  const int cut = split * keys_per_split;
  const int end = min(most_keys, cut + keys_per_split);
  // Skips whole passes of keys that precede every row's window.
  const int before = max(0, first_key - cut);
  const int begin = cut + before / kKeysPerPass * kKeysPerPass;

  Partial<kSize> partials[kRows];
  Slice<T, kWidth> keys[kKeysInFlight] = {}, values[kKeysInFlight] = {};
  const int own = lane / kLanes;  // which of the warp's keys in a step
  int first = begin + warp * kKeysPerWarp + own;
  if constexpr (kEarly) {
    const int known = span.context - span.query_length;
    LoadFirstPass<kKeysPerStep>(pages, columns, first, known, end, keys, values);
  }
  float q[kRows][kSize] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (r >= num_rows) break;
    const int64_t token = span.first_query + query_of(r);
    Slice<T, kWidth> query;
    query.Load(args.query + token * args.query_stride + head_of(r) * args.head_dim, columns);
#pragma unroll
    for (int j = 0; j < kSize; ++j) q[r][j] = query.At(j) * args.scale;
  }
  bool loaded = kEarly;
  for (; first - own < end; first += kKeysPerPass) {
    if (!loaded) LoadPass<kKeysPerStep>(pages, columns, first, end, keys, values);
    loaded = false;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= num_rows) break;
      float scores[kKeysInFlight];
      MultiplyKeys(columns, q[r], keys, scores);
#pragma unroll
      for (int i = 0; i < kKeysInFlight; ++i) {
        const int key = first + i * kKeysPerStep;
        if (kEdits) {
          const int position = span.context - span.query_length + query_of(r);
          scores[i] = EditedScore(args, head_of(r), position, key, scores[i]);
        }
        const bool seen = key < min(end, next[r] + args.ahead) && key >= next[r] - args.window;
        if (!seen) scores[i] = -INFINITY;
      }
      AddValues<T>(scores, values, partials[r]);
    }
  }

#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    Partial<kSize>& partial = partials[r];
    MergeLanes<T, kLanes>(partial);
    if (lane < kLanes) StoreSums(columns, partial, sums[warp][r]);
    if (lane == 0) weights[warp][r] = {partial.maximum, partial.total};
  }
  __syncthreads();

  for (int i = threadIdx.x; i < num_rows * args.head_dim; i += kWarps * kWarpSize) {
    const int r = i / args.head_dim;
    const int column = i % args.head_dim;
    const Partial<1> merged = MergeWarps<T>(sums, weights, r, column);
    const int64_t token = span.first_query + query_of(r);
    const int head = head_of(r);
    if (splits.sums == nullptr) {
      // A query without keys gets zeros.
      args.output[token * args.output_stride + head * args.head_dim + column] =
          FromFloat<T>(merged.total == 0.0f ? 0.0f : merged.sum[0] / merged.total);
    } else {
      const int64_t row = token * args.num_kv_heads * args.group_size + head;
      const int64_t at = row * splits.count + split;
      splits.sums[at * args.head_dim + column] = merged.sum[0];
      if (column == 0) splits.weights[at] = {merged.maximum, merged.total};
    }
  }
}

// Grid: (tokens, heads), one thread per element. Bound by memory: the splits' sums are read once.
template <typename T>
__global__ void MergeSplitsKernel(AttentionArgs<T> args, Splits splits) {
  static_assert(kMostSplits <= 2 * kWarpSize);
  __shared__ float shares[kMostSplits];  // exp(maximum of a split - maximum)
  __shared__ float total;
  WaitForEarlierKernels();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * gridDim.y + blockIdx.y;
  const int lane = threadIdx.x % kWarpSize;
  if (threadIdx.x < kWarpSize) {
    float2 weights[2];
    for (int i = 0; i < 2; ++i) {
      const int split = lane + i * kWarpSize;
      weights[i] = split < splits.count ? splits.weights[row * splits.count + split]
                                        : float2{-INFINITY, 0.0f};
    }
    const float maximum = WarpMax(fmaxf(weights[0].x, weights[1].x));
    // In a row without keys, the share of every split is 0.
    const float shift = maximum == -INFINITY ? 0.0f : maximum;
    float sum = 0.0f;
    for (int i = 0; i < 2; ++i) {
      const float share = Exp<T>(weights[i].x - shift);
      shares[lane + i * kWarpSize] = share;
      sum += weights[i].y * share;
    }
    sum = WarpSum(sum);
    if (lane == 0) total = sum;
  }
  __syncthreads();
  if (threadIdx.x >= args.head_dim) return;
  const float* sums = splits.sums + row * splits.count * args.head_dim + threadIdx.x;
  float sum = 0.0f;
#pragma unroll 8
  for (int s = 0; s < splits.count; ++s) sum += sums[s * args.head_dim] * shares[s];
  args.output[blockIdx.x * args.output_stride + blockIdx.y * args.head_dim + threadIdx.x] =
      FromFloat<T>(total == 0.0f ? 0.0f : sum / total);
}

}  // namespace attention_rows

template <typename T>
void AttendRows(Device& device, const AttentionArgs<T>& args, const AttentionParams& params,
                const AttentionChoice& choice) {
  using attention_rows::MergeSplitsKernel;
  using attention_rows::RowsKernel;
  using attention_rows::Splits;
  const int64_t num_tokens = params.query.num_rows();
  const int num_splits = choice.num_splits;
  BEAMLINE_CHECK(choice.rows_per_block == 1 || choice.rows_per_block == kMostRowsPerBlock);
  BEAMLINE_CHECK(num_splits <= kMostSplits);
  Splits splits = {num_splits, nullptr, nullptr};
  if (num_splits > 1) {
    const auto entries = static_cast<size_t>(num_tokens * params.num_heads * num_splits);
    splits.sums = device.TakeScratch<float>(entries * params.head_dim);
    splits.weights = device.TakeScratch<float2>(entries);
    if (!device.ok()) return;
  }
  const int rows = params.max_query_length * args.group_size;
  const int row_blocks = CeilDiv(rows, choice.rows_per_block);
  const dim3 grid(static_cast<unsigned>(row_blocks * num_splits),
                  static_cast<unsigned>(params.num_kv_heads),
                  static_cast<unsigned>(params.num_sequences));
  // If all blocks run at once, those of the next launch start as soon as there is room. With more
  // blocks, blocks hide each other's latencies.
  const bool at_once = choice.warps_per_block == kMoreRowWarps && args.head_dim <= 128;
  const bool early = args.block_tables != nullptr &&
                     (at_once || int64_t{grid.x} * grid.y * grid.z <= device.num_multiprocessors());
  DispatchRows<T>(args, [&]<int kWidth, bool kEdits>() {
    const auto launch = [&]<int kRows, int kWarps, bool kEarly>() {
      LaunchOverlapped(device, "Attention (rows)",
                       RowsKernel<T, kWidth, kRows, kEdits, kWarps, kEarly>, grid,
                       kWarps * kWarpSize, /*shared_bytes=*/0, args, splits);
    };
    const auto launch_row = [&]<int kWarps>() {
      early ? launch.template operator()<1, kWarps, true>()
            : launch.template operator()<1, kWarps, false>();
    };
    if (choice.rows_per_block > 1) {
      launch.template operator()<kMostRowsPerBlock, kFewRowWarps, false>();
    } else if (choice.warps_per_block == kFewRowWarps) {
      launch_row.template operator()<kFewRowWarps>();
    } else {
      BEAMLINE_CHECK(choice.warps_per_block == kMoreRowWarps);
      launch_row.template operator()<kMoreRowWarps>();
    }
  });
  if (num_splits > 1) {
    const dim3 heads(static_cast<unsigned>(num_tokens), static_cast<unsigned>(params.num_heads));
    LaunchOverlapped(device, "Attention (rows)", MergeSplitsKernel<T>, heads,
                     ThreadsFor(params.head_dim, /*most=*/256), /*shared_bytes=*/0, args, splits);
  }
}

}  // namespace beamline::cuda
