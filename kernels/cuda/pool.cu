// Pooling of token vectors into one vector per sequence, to unit length if asked.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;

// Grid: a block per sequence; a thread per column, so that a row is read coalesced. Bound by memory
// where there are enough sequences to fill the GPU: hidden read once, the output written twice when
// normalised.
template <typename T>
__global__ void PoolKernel(Pooling pooling, bool normalize, const T* hidden, int64_t hidden_stride,
                           const int32_t* offsets, int hidden_size, float* output,
                           int64_t output_stride) {
  __shared__ float partials[kWarpSize];
  const int first = offsets[blockIdx.x];
  const int last = offsets[blockIdx.x + 1];
  const int count = last - first;
  float* to = output + blockIdx.x * output_stride;
  int begin = first, end = last;
  if (pooling == Pooling::kCls) end = min(last, first + 1);
  if (pooling == Pooling::kLast) begin = max(first, last - 1);
  const float divisor = pooling == Pooling::kMean             ? static_cast<float>(count)
                        : pooling == Pooling::kMeanSqrtLength ? sqrtf(static_cast<float>(count))
                                                              : 1.0f;
  float squares = 0.0f;
  for (int column = threadIdx.x; column < hidden_size; column += kThreads) {
    const T* from = hidden + column;
    float value = 0.0f;
    if (pooling == Pooling::kMax && count > 0) {
      value = ToFloat(from[begin * hidden_stride]);
      for (int token = begin + 1; token < end; ++token) {
        value = fmaxf(value, ToFloat(from[token * hidden_stride]));
      }
    } else {
      for (int token = begin; token < end; ++token) value += ToFloat(from[token * hidden_stride]);
    }
    if (count > 0) value /= divisor;
    squares += value * value;
    to[column] = value;
  }
  if (!normalize) return;
  const float length = sqrtf(BlockSum(squares, partials));
  if (length == 0.0f) return;
  for (int column = threadIdx.x; column < hidden_size; column += kThreads) to[column] /= length;
}

}  // namespace

void Pool(Device& device, const PoolParams& params) {
  if (params.num_sequences == 0) return;
  DispatchFloat(params.hidden.dtype, [&]<typename T>() {
    PoolKernel<T><<<static_cast<unsigned>(params.num_sequences), kThreads, 0, device.stream()>>>(
        params.pooling, params.normalize, params.hidden.as<T>(), params.hidden.row_stride,
        params.offsets, static_cast<int>(params.hidden.dim(-1)), params.output.as<float>(),
        params.output.row_stride);
  });
  device.CheckLaunch("Pool");
}

}  // namespace beamline::cuda
