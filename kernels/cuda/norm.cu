// LayerNorm and RMSNorm with the residual addition fused.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kMostThreads = 1024;
// What a launch may ask for without a word, less the kernel's own sums.
constexpr int64_t kDefaultSharedBytes = (48 << 10) - 2 * kWarpSize * sizeof(float);

template <typename T>
struct NormArgs {
  const T* x;         // [num_rows, hidden_size]
  const T* residual;  // as x; may be null
  const T* gain;      // [hidden_size]
  const T* bias;      // [hidden_size]; may be null
  T* sum;             // as x; may be null
  T* y;               // as x
  int64_t x_stride, residual_stride, sum_stride, y_stride;
  int hidden_size;
  float epsilon;
  bool centred;  // LayerNorm
};

// y = norm(x + residual) * gain + bias. The row waits in shared memory as float32 between the mean,
// the variance around it (two passes over registers' worth of data, as accurate as float32 allows)
// and the output; each thread reads and writes the same elements, so that y may alias x.
// Grid: a block per row; shared memory: hidden_size floats. Bound by memory: x and residual read
// once, sum and y written once.
template <typename T, int kSize>
__global__ void NormKernel(NormArgs<T> args) {
  extern __shared__ float row[];
  __shared__ float partial_sums[kWarpSize], partial_squares[kWarpSize];
  const int64_t i = blockIdx.x;
  const T* x = args.x + i * args.x_stride;
  const T* residual = args.residual == nullptr ? nullptr : args.residual + i * args.residual_stride;
  T* sum = args.sum == nullptr ? nullptr : args.sum + i * args.sum_stride;
  const int begin = threadIdx.x * kSize;
  const int step = blockDim.x * kSize;

  float total = 0.0f;
  for (int column = begin; column < args.hidden_size; column += step) {
    float values[kSize];
    LoadFloats<kSize>(x + column, values);
    if (residual != nullptr) {
      float addend[kSize];
      LoadFloats<kSize>(residual + column, addend);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] += addend[j];
    }
    if (sum != nullptr) StoreFloats<kSize>(values, sum + column);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      total += values[j];
      row[column + j] = values[j];
    }
  }
  const float count = static_cast<float>(args.hidden_size);
  const float mean = args.centred ? BlockSum(total, partial_sums) / count : 0.0f;

  float squares = 0.0f;
  for (int column = begin; column < args.hidden_size; column += step) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const float centred = row[column + j] - mean;
      squares += centred * centred;
    }
  }
  const float variance = BlockSum(squares, partial_squares) / count;
  const float scale = 1.0f / sqrtf(variance + args.epsilon);

  T* y = args.y + i * args.y_stride;
  for (int column = begin; column < args.hidden_size; column += step) {
    float values[kSize], gain[kSize];
    LoadFloats<kSize>(args.gain + column, gain);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] = (row[column + j] - mean) * scale * gain[j];
    if (args.bias != nullptr) {
      float bias[kSize];
      LoadFloats<kSize>(args.bias + column, bias);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] += bias[j];
    }
    StoreFloats<kSize>(values, y + column);
  }
}

template <typename T, int kSize>
void Launch(Device& device, const NormArgs<T>& args, int64_t num_rows) {
  const int64_t shared_bytes = args.hidden_size * static_cast<int64_t>(sizeof(float));
  if (shared_bytes > kDefaultSharedBytes) {
    device.Check(
        cudaFuncSetAttribute(NormKernel<T, kSize>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)),
        "Norm: hidden_size needs more shared memory than the GPU has");
  }
  const int threads = ThreadsFor(args.hidden_size / kSize, kMostThreads);
  NormKernel<T, kSize>
      <<<static_cast<unsigned>(num_rows), threads, shared_bytes, device.stream()>>>(args);
  device.CheckLaunch("Norm");
}

}  // namespace

void Norm(Device& device, const NormParams& params) {
  const int64_t num_rows = params.x.num_rows();
  if (num_rows == 0) return;
  bool vectorizable = true;
  for (const Tensor* tensor :
       {&params.x, &params.residual, &params.gain, &params.bias, &params.sum, &params.y}) {
    vectorizable &= IsVectorizable(*tensor);
  }
  DispatchFloat(params.x.dtype, [&]<typename T>() {
    NormArgs<T> args;
    args.x = params.x.as<T>();
    args.residual = params.residual.as<T>();
    args.gain = params.gain.as<T>();
    args.bias = params.bias.as<T>();
    args.sum = params.sum.as<T>();
    args.y = params.y.as<T>();
    args.x_stride = params.x.row_stride;
    args.residual_stride = params.residual.row_stride;
    args.sum_stride = params.sum.row_stride;
    args.y_stride = params.y.row_stride;
    args.hidden_size = static_cast<int>(params.x.dim(-1));
    args.epsilon = params.epsilon;
    args.centred = params.kind == NormKind::kLayerNorm;
    if (vectorizable) {
      Launch<T, kVecSize<T>>(device, args, num_rows);
    } else {
      Launch<T, 1>(device, args, num_rows);
    }
  });
}

}  // namespace beamline::cuda
