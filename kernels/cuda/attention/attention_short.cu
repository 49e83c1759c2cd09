// Attention for one query row a sequence over short contexts: a warp reads a whole context, so that
// neither shared memory nor a barrier stands between it and the output.
#include "base/math.h"
#include "kernels/cuda/attention/attention_partial.cuh"
#include "kernels/cuda/device/launch.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;

// The warps of a block take the same head of neighbouring sequences: the beams of a request, whose
// tables name the same blocks, then find each other's keys in L1.
// Grid: (kWarps sequences, heads). Bound by memory where rows fill the GPU: every key and value
// read once for each row; below, by the latency of a table's entries, a pass of keys and the merge.
template <typename T, int kWidth, bool kEdits>
__global__ void __launch_bounds__(kThreads, kWidth == 256 ? 5 : 6)
    ShortRowsKernel(AttentionArgs<T> args, int num_sequences) {
  using Columns = LaneColumns<T, kWidth>;
  constexpr int kKeysPerStep = kWarpSize / Columns::kLanes;
  constexpr int kKeysPerPass = kKeysPerStep * kKeysInFlight;
  WaitForEarlierKernels();
  const int sequence = blockIdx.x * kWarps + threadIdx.x / kWarpSize;
  const int head = blockIdx.y;
  if (sequence >= num_sequences) return;
  const int lane = threadIdx.x % kWarpSize;
  const int own = lane / Columns::kLanes;  // key of a step
  const CachedHead<T> cached = {args, args.block_tables + int64_t{sequence} * args.max_blocks,
                                head * args.block_size.value()};
  // Loaded before the context's length is known, so that the two loads wait together.
  int32_t entries[kKeysInFlight];
#pragma unroll
  for (int i = 0; i < kKeysInFlight; ++i) entries[i] = cached.Entry(own + i * kKeysPerStep);
  const Columns columns(args.head_dim);
  const SequenceSpan span = SpanOf(args, sequence);
  if (span.query_length == 0) return;

  Slice<T, kWidth> query;
  query.Load(args.query + span.first_query * args.query_stride + head * args.head_dim, columns);
  float q[Columns::kSize];
#pragma unroll
  for (int j = 0; j < Columns::kSize; ++j) q[j] = query.At(j) * args.scale;
  Partial<Columns::kSize> partial;
  for (int first = own; first - own < span.context; first += kKeysPerPass) {
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
    float scores[kKeysInFlight];
    MultiplyKeys(columns, q, keys, scores);
#pragma unroll
    for (int i = 0; i < kKeysInFlight; ++i) {
      const int key = first + i * kKeysPerStep;
      if (kEdits) scores[i] = EditedScore(args, head, span.context - 1, key, scores[i]);
      if (key >= span.context) scores[i] = -INFINITY;
    }
    AddValues<T>(scores, values, partial);
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
  DispatchRows<T>(args, [&]<int kWidth, bool kEdits>() {
    LaunchOverlapped(device, "Attention (short rows)", ShortRowsKernel<T, kWidth, kEdits>, grid,
                     kThreads, /*shared_bytes=*/0, args, params.num_sequences);
  });
}

template void AttendShortRows(Device&, const AttentionArgs<float>&, const AttentionParams&);
template void AttendShortRows(Device&, const AttentionArgs<__half>&, const AttentionParams&);
template void AttendShortRows(Device&, const AttentionArgs<__nv_bfloat16>&, const AttentionParams&);

}  // namespace beamline::cuda
