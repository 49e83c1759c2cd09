// What follows a product whose epilogue cuBLASLt does not offer, and what precedes one whose input
// it cannot read.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;

// The activations' and the product's type P and the output's type Y differ for float32 logits of a
// half-precision model. Bias has the type P or Y, told apart at run time: it is read from cache.
template <typename P, typename Y>
struct FinishArgs {
  const P* product;
  const void* bias;
  const Y* residual;
  Y* y;
  int64_t product_stride, residual_stride, y_stride;
  int width;  // columns of y
  DType bias_dtype;
  Activation activation;
  bool gated;
};

__device__ inline float LoadBias(const void* bias, DType dtype, int column) {
  if (bias == nullptr) return 0.0f;
  if (dtype == DType::kFloat32) return static_cast<const float*>(bias)[column];
  if (dtype == DType::kFloat16) return ToFloat(static_cast<const __half*>(bias)[column]);
  return ToFloat(static_cast<const __nv_bfloat16*>(bias)[column]);
}

// Grid: (pieces of a row, rows). Bound by memory: the product (twice as wide when gated) and the
// residual read, y written, once each.
template <typename P, typename Y, int kSize>
__global__ void FinishKernel(FinishArgs<P, Y> args) {
  const int column = (blockIdx.y * kThreads + threadIdx.x) * kSize;
  if (column >= args.width) return;
  const int64_t row = blockIdx.x;
  const P* product = args.product + row * args.product_stride + column;
  float values[kSize];
  LoadFloats<kSize>(product, values);
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    values[j] =
        Activate(args.activation, values[j] + LoadBias(args.bias, args.bias_dtype, column + j));
  }
  if (args.gated) {
    float up[kSize];
    LoadFloats<kSize>(product + args.width, up);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      values[j] *= up[j] + LoadBias(args.bias, args.bias_dtype, args.width + column + j);
    }
  }
  if (args.residual != nullptr) {
    float residual[kSize];
    LoadFloats<kSize>(args.residual + row * args.residual_stride + column, residual);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] += residual[j];
  }
  StoreFloats<kSize>(values, args.y + row * args.y_stride + column);
}

// Grid: (pieces of a row, rows). Bound by memory.
template <typename T>
__global__ void PadColumnsKernel(const T* from, int64_t from_stride, int width, T* to,
                                 int64_t to_stride) {
  const int64_t column = blockIdx.y * int64_t{kThreads} + threadIdx.x;
  if (column >= to_stride) return;
  const int64_t row = blockIdx.x;
  to[row * to_stride + column] =
      column < width ? from[row * from_stride + column] : FromFloat<T>(0.0f);
}

dim3 GridFor(int64_t num_rows, int64_t items_per_row) {
  return dim3(static_cast<unsigned>(num_rows),
              static_cast<unsigned>((items_per_row + kThreads - 1) / kThreads));
}

}  // namespace

void Finish(Device& device, const FinishParams& params) {
  const int64_t num_rows = params.y.num_rows();
  const auto launch = [&]<typename P, typename Y>() {
    FinishArgs<P, Y> args = {};
    args.product = params.product.as<P>();
    args.bias = params.bias.data;
    args.residual = params.residual.as<Y>();
    args.y = params.y.as<Y>();
    args.product_stride = params.product.row_stride;
    args.residual_stride = params.residual.row_stride;
    args.y_stride = params.y.row_stride;
    args.width = static_cast<int>(params.y.dim(-1));
    args.bias_dtype = params.bias.dtype;
    args.activation = params.activation;
    args.gated = params.gated;
    constexpr int kSize = kVecSize<P> < kVecSize<Y> ? kVecSize<P> : kVecSize<Y>;
    const bool vectorizable = IsVectorizable(params.product) && IsVectorizable(params.residual) &&
                              IsVectorizable(params.y) && args.width % kVecSize<P> == 0;
    if (vectorizable) {
      FinishKernel<P, Y, kSize>
          <<<GridFor(num_rows, args.width / kSize), kThreads, 0, device.stream()>>>(args);
      device.CheckLaunch("MatMul's epilogue");
    } else {
      FinishKernel<P, Y, 1><<<GridFor(num_rows, args.width), kThreads, 0, device.stream()>>>(args);
      device.CheckLaunch("MatMul's epilogue");
    }
  };
  DispatchFloat(params.product.dtype, [&]<typename P>() {
    if (params.y.dtype == params.product.dtype) {
      launch.template operator()<P, P>();
    } else {
      BEAMLINE_CHECK(params.y.dtype == DType::kFloat32);
      launch.template operator()<P, float>();
    }
  });
}

Tensor PadColumns(Device& device, const Tensor& x, int64_t row_stride) {
  const int64_t num_rows = x.num_rows();
  const size_t bytes = static_cast<size_t>(num_rows * row_stride) * SizeOf(x.dtype);
  Tensor padded(device.TakeScratch<char>(bytes), x.dtype, {num_rows, row_stride});
  if (!device.ok()) return padded;
  DispatchFloat(x.dtype, [&]<typename T>() {
    PadColumnsKernel<T><<<GridFor(num_rows, row_stride), kThreads, 0, device.stream()>>>(
        x.as<T>(), x.row_stride, static_cast<int>(x.dim(-1)), padded.as<T>(), row_stride);
    device.CheckLaunch("MatMul's epilogue");
  });
  device.CheckLaunch("MatMul's padding");
  return padded;
}

}  // namespace beamline::cuda
