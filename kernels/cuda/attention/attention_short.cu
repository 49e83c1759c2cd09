// Attention for one query row per sequence over short contexts. One warp reads a whole context, so
// that it needs neither shared memory nor a barrier.
#include "base/math.h"
#include "kernels/cuda/attention/attention_partial.cuh"
#include "kernels/cuda/device/launch.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;

// Passes of keys that a warp loads before WaitForEarlierKernels. If a lane has one part of a row,
// it loads both passes of the longest context that this kernel gets when rows are few.
template <typename T, int kWidth>
constexpr int kEarlyPasses = LaneColumns<T, kWidth>::kParts == 1 ? 2 : 1;

// The keys and values of kPasses passes.
template <typename T, int kWidth, int kPasses>
struct EarlyKeys {
  Slice<T, kWidth> keys[kPasses][kKeysInFlight] = {}, values[kPasses][kKeysInFlight] = {};

  // Loads the keys and values at positions in [begin, end), of every kKeysPerStep-th position from
  // `own` on. Their rows are at `offsets`.
  template <int kKeysPerStep>
  __device__ void Load(const AttentionArgs<T>& args, const LaneColumns<T, kWidth>& columns, int own,
                       const int64_t (&offsets)[kPasses * kKeysInFlight], int begin, int end) {
#pragma unroll
    for (int i = 0; i < kPasses * kKeysInFlight; ++i) {
      const int key = own + i * kKeysPerStep;
      const bool valid = key >= begin && key < end;
      const int p = i / kKeysInFlight, at = i % kKeysInFlight;
      keys[p][at].LoadPastL1(args.keys + offsets[i], columns, valid);
      values[p][at].LoadPastL1(args.values + offsets[i], columns, valid);
    }
  }
};

// The warps of a block take the same head of neighbouring sequences. So the beams of a request,
// whose tables have the same blocks, find each other's keys in L1.
// Grid: (kWarps sequences, heads). Bound by memory if rows fill the GPU: every key and value is
// read once per row. With fewer rows bound by latencies. With kEarly, the latencies of the table
// entries, the first keys and their values pass before WaitForEarlierKernels, because the previous
// kernel writes only the sequence's own rows.
template <typename T, int kWidth, bool kEdits, bool kEarly>
__global__ void __launch_bounds__(kThreads, kEarly          ? 2
                                            : kWidth == 256 ? 5
                                                            : 6)
    ShortRowsKernel(AttentionArgs<T> args, int num_sequences) {
  using Columns = LaneColumns<T, kWidth>;
  constexpr int kKeysPerStep = kWarpSize / Columns::kLanes;
  constexpr int kKeysPerPass = kKeysPerStep * kKeysInFlight;
  if constexpr (!kEarly) WaitForEarlierKernels();
  const int sequence = blockIdx.x * kWarps + threadIdx.x / kWarpSize;
  const int head = blockIdx.y;
  if (sequence >= num_sequences) {
    if constexpr (kEarly) WaitForEarlierKernels();
    return;
  }
  const int lane = threadIdx.x % kWarpSize;
  const int own = lane / Columns::kLanes;  // which key of a step
  const Columns columns(args.head_dim);
  const CachedHead<T> cached = {args, args.block_tables + int64_t{sequence} * args.max_blocks,
                                head * args.block_size.value()};
  constexpr int kPasses = kEarly ? kEarlyPasses<T, kWidth> : 1;
  // Loaded before the context length is known, so that both loads wait together.
  int32_t entries[kPasses * kKeysInFlight];
#pragma unroll
  for (int i = 0; i < kPasses * kKeysInFlight; ++i) {
    const int key = own + i * kKeysPerStep;
    entries[i] = kEarly ? cached.EarlyEntry(key) : cached.Entry(key);
  }
  const SequenceSpan span = kEarly ? EarlySpanOf(args, sequence) : SpanOf(args, sequence);
  [[maybe_unused]] EarlyKeys<T, kWidth, kPasses> early;
  if constexpr (kEarly) {
    int64_t offsets[kPasses * kKeysInFlight];
#pragma unroll
    for (int i = 0; i < kPasses * kKeysInFlight; ++i) {
      offsets[i] = cached.Offset(own + i * kKeysPerStep, entries[i]);
    }
    const int known = span.context - span.query_length;
    early.template Load<kKeysPerStep>(args, columns, own, offsets, 0, known);
    WaitForEarlierKernels();
    early.template Load<kKeysPerStep>(args, columns, own, offsets, known, span.context);
  }
  if (span.query_length == 0) return;

  Slice<T, kWidth> query;
  query.Load(args.query + span.first_query * args.query_stride + head * args.head_dim, columns);
  float q[Columns::kSize];
#pragma unroll
  for (int j = 0; j < Columns::kSize; ++j) q[j] = query.At(j) * args.scale;
  Partial<Columns::kSize> partial;
  const auto add = [&](int first, const Slice<T, kWidth>(&keys)[kKeysInFlight],
                       const Slice<T, kWidth>(&values)[kKeysInFlight]) {
    float scores[kKeysInFlight];
    MultiplyKeys(columns, q, keys, scores);
#pragma unroll
    for (int i = 0; i < kKeysInFlight; ++i) {
      const int key = first + i * kKeysPerStep;
      if (kEdits) scores[i] = EditedScore(args, head, span.context - 1, key, scores[i]);
      if (key >= span.context) scores[i] = -INFINITY;
    }
    AddValues<T>(scores, values, partial);
  };
  int first = own;
  if constexpr (kEarly) {
#pragma unroll
    for (int p = 0; p < kPasses; ++p, first += kKeysPerPass) {
      if (first - own < span.context) add(first, early.keys[p], early.values[p]);
    }
    if (first - own < span.context) {
#pragma unroll
      for (int i = 0; i < kKeysInFlight; ++i) entries[i] = cached.Entry(first + i * kKeysPerStep);
    }
  }
  for (; first - own < span.context; first += kKeysPerPass) {
    Slice<T, kWidth> keys[kKeysInFlight], values[kKeysInFlight];
#pragma unroll
    for (int i = 0; i < kKeysInFlight; ++i) {
      const int key = first + i * kKeysPerStep;
      const int64_t offset = cached.Offset(key, entries[i]);
      keys[i].Load(args.keys + offset, columns, key < span.context);
      values[i].Load(args.values + offset, columns, key < span.context);
    }
#pragma unroll
    for (int i = 0; i < kKeysInFlight; ++i) {
      entries[i] = cached.Entry(first + kKeysPerPass + i * kKeysPerStep);
    }
    add(first, keys, values);
  }

  MergeLanes<T, Columns::kLanes>(partial);
  if (lane >= Columns::kLanes) return;
  // A query without keys gets zeros.
  const float scale = partial.total == 0.0f ? 0.0f : __fdividef(1.0f, partial.total);
  T* const output = args.output + span.first_query * args.output_stride + head * args.head_dim;
#pragma unroll
  for (int p = 0; p < Columns::kParts; ++p) {
    if (!columns.exists[p]) break;
    float values[Columns::kPart];
#pragma unroll
    for (int j = 0; j < Columns::kPart; ++j)
      values[j] = partial.sum[p * Columns::kPart + j] * scale;
    StoreFloats<Columns::kPart>(values, output + columns.first[p]);
  }
}

}  // namespace

template <typename T>
void AttendShortRows(Device& device, const AttentionArgs<T>& args, const AttentionParams& params) {
  BEAMLINE_CHECK(args.block_tables != nullptr && args.group_size == 1);
  BEAMLINE_CHECK(params.max_query_length == 1);
  const dim3 grid(static_cast<unsigned>(CeilDiv(params.num_sequences, kWarps)),
                  static_cast<unsigned>(params.num_heads));
  // With more blocks, blocks hide each other's latencies, and find the keys of beams in L1.
  const bool early = int64_t{grid.x} * grid.y <= device.num_multiprocessors();
  DispatchRows<T>(args, [&]<int kWidth, bool kEdits>() {
    const auto launch = [&]<bool kEarly>() {
      LaunchOverlapped(device, "Attention (short rows)", ShortRowsKernel<T, kWidth, kEdits, kEarly>,
                       grid, kThreads,
                       /*shared_bytes=*/0, args, params.num_sequences);
    };
    early ? launch.template operator()<true>() : launch.template operator()<false>();
  });
}

template void AttendShortRows(Device&, const AttentionArgs<float>&, const AttentionParams&);
template void AttendShortRows(Device&, const AttentionArgs<__half>&, const AttentionParams&);
template void AttendShortRows(Device&, const AttentionArgs<__nv_bfloat16>&, const AttentionParams&);

}  // namespace beamline::cuda
