// Attention for heads of any size up to kMostHeadDim. Reference for the other GPU kernels.
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_args.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kMostDimsPerLane = kMostHeadDim / kWarpSize;

// A lane's part of the position terms (RelativePositions) of its query elements q and its key
// elements at k.
template <typename T>
__device__ float PositionPart(const AttentionArgs<T>& args, const float (&q)[kMostDimsPerLane],
                              const T* k, int position, int key, int64_t column) {
  const int64_t row = PositionRow(args, position, key);
  const int64_t of_query = row * args.position_key_stride + column;
  const int64_t of_key = row * args.position_query_stride + column;
  float part = 0.0f;
#pragma unroll
  for (int i = 0; i < kMostDimsPerLane; ++i) {
    const int d = static_cast<int>(threadIdx.x) % kWarpSize + i * kWarpSize;
    if (d >= args.head_dim) continue;
    if (args.position_keys != nullptr) part += q[i] * ToFloat(args.position_keys[of_query + d]);
    if (args.position_queries != nullptr) {
      part += ToFloat(k[d]) * ToFloat(args.position_queries[of_key + d]);
    }
  }
  return part;
}

// Each warp takes every fourth key of one query and head. Each lane takes elements lane, lane + 32,
// ... of the head. The warps' softmaxes are merged at the end.
// Grid: (queries of the longest sequence, heads, sequences). Bound by latency: one key at a time.
template <typename T>
__global__ void __launch_bounds__(kWarps* kWarpSize) MathKernel(AttentionArgs<T> args) {
  __shared__ float maxima[kWarps], totals[kWarps];
  __shared__ float sums[kWarps][kMostDimsPerLane * kWarpSize];
  const int sequence = blockIdx.z;
  const int head = blockIdx.y;
  const int query = blockIdx.x;
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const SequenceSpan span = SpanOf(args, sequence);
  if (query >= span.query_length) return;
  const int position = span.context - span.query_length + query;
  const int num_keys = KeysEnd(args, position, span.context);
  const int64_t token = span.first_query + query;
  const int64_t column = static_cast<int64_t>(head) * args.head_dim;
  const int kv_head = head / args.group_size;
  const KvRows<T> keys =
      RowsOf(args, args.keys, args.key_stride, sequence, span.first_query, kv_head);
  const KvRows<T> values =
      RowsOf(args, args.values, args.value_stride, sequence, span.first_query, kv_head);

  float q[kMostDimsPerLane] = {}, sum[kMostDimsPerLane] = {};
#pragma unroll
  for (int i = 0; i < kMostDimsPerLane; ++i) {
    const int d = lane + i * kWarpSize;
    if (d < args.head_dim) q[i] = ToFloat(args.query[token * args.query_stride + column + d]);
  }
  float maximum = -INFINITY, total = 0.0f;
  for (int key = max(0, KeysBegin(args, position)) + warp; key < num_keys; key += kWarps) {
    const T* k = keys.Row(key);
    float score = 0.0f;
#pragma unroll
    for (int i = 0; i < kMostDimsPerLane; ++i) {
      const int d = lane + i * kWarpSize;
      if (d < args.head_dim) score += q[i] * ToFloat(k[d]);
    }
    if (args.position_rows != nullptr) score += PositionPart(args, q, k, position, key, column);
    score = WarpSum(score) * args.scale;
    if (EditsScores(args)) score = EditedScore(args, head, position, key, score);
    const float new_maximum = fmaxf(maximum, score);
    if (new_maximum == -INFINITY) continue;
    const float decay = expf(maximum - new_maximum);
    const float p = expf(score - new_maximum);
    maximum = new_maximum;
    total = total * decay + p;
    const T* v = values.Row(key);
#pragma unroll
    for (int i = 0; i < kMostDimsPerLane; ++i) {
      const int d = lane + i * kWarpSize;
      if (d < args.head_dim) sum[i] = sum[i] * decay + p * ToFloat(v[d]);
    }
  }
  if (lane == 0) {
    maxima[warp] = maximum;
    totals[warp] = total;
  }
#pragma unroll
  for (int i = 0; i < kMostDimsPerLane; ++i) sums[warp][lane + i * kWarpSize] = sum[i];
  __syncthreads();

  for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, maxima[w]);
  total = 0.0f;
  float weights[kWarps];
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    weights[w] = maxima[w] == -INFINITY ? 0.0f : expf(maxima[w] - maximum);
    total += totals[w] * weights[w];
  }
  const float scale = total == 0.0f ? 0.0f : 1.0f / total;  // a query without keys gets zeros
  for (int d = threadIdx.x; d < args.head_dim; d += kWarps * kWarpSize) {
    float value = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) value += sums[w][d] * weights[w];
    args.output[token * args.output_stride + column + d] = FromFloat<T>(value * scale);
  }
}

}  // namespace

template <typename T>
void AttendMath(Device& device, const AttentionArgs<T>& args, const AttentionParams& params) {
  BEAMLINE_CHECK(args.head_dim <= kMostHeadDim);
  const dim3 grid(static_cast<unsigned>(params.max_query_length),
                  static_cast<unsigned>(params.num_heads),
                  static_cast<unsigned>(params.num_sequences));
  MathKernel<<<grid, kWarps * kWarpSize, 0, device.stream()>>>(args);
  device.CheckLaunch("Attention (math)");
}

template void AttendMath(Device&, const AttentionArgs<float>&, const AttentionParams&);
template void AttendMath(Device&, const AttentionArgs<__half>&, const AttentionParams&);
template void AttendMath(Device&, const AttentionArgs<__nv_bfloat16>&, const AttentionParams&);

}  // namespace beamline::cuda
