// The pass after a product whose epilogue cuBLASLt does not offer, and the pass before a product
// whose input cuBLASLt cannot read.
#include <algorithm>

#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/activation.cuh"
#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostThreads = 512;
// Rows that a thread of the finishing pass loads before it computes the first, if there are enough
// rows to keep several blocks on every multiprocessor.
constexpr int kManyRows = 4;
constexpr int kBlocksPerMultiprocessor = 4;

// The type P of the activations and the product differs from the output's type Y for float32 logits
// of a half-precision model. The bias has the type of either, told apart at run time.
template <typename P, typename Y>
struct FinishArgs {
  const P* product;
  const void* bias;
  const Y* residual;
  Y* y;
  int64_t product_stride, residual_stride, y_stride;
  int64_t num_rows;
  int width;   // columns of y
  int pieces;  // blocks that share a row
  DType bias_dtype;
  Activation activation;
  bool gated;
  float softcap;  // 0: none
};

template <int kSize, typename T>
__device__ void LoadParts(const T* from, float (&to)[kSize]) {
  constexpr int kPart = kSize < kVecSize<T> ? kSize : kVecSize<T>;
#pragma unroll
  for (int i = 0; i < kSize; i += kPart) {
    float part[kPart];
    LoadFloats<kPart>(from + i, part);
#pragma unroll
    for (int j = 0; j < kPart; ++j) to[i + j] = part[j];
  }
}

template <int kSize>
__device__ void LoadBias(const void* bias, DType dtype, int column, float (&to)[kSize]) {
  if (bias == nullptr) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) to[j] = 0.0f;
  } else if (dtype == DType::kFloat32) {
    LoadParts(static_cast<const float*>(bias) + column, to);
  } else if (dtype == DType::kFloat16) {
    LoadParts(static_cast<const __half*>(bias) + column, to);
  } else {
    LoadParts(static_cast<const __nv_bfloat16*>(bias) + column, to);
  }
}

// A thread computes the same kSize columns of kRows rows. It loads their bias once, and the loads
// of the rows are in flight together. Grid: (groups of rows) x (pieces of a row). Bound by memory:
// the product (twice as wide if gated) and the residual are read and y is written, once each.
template <typename P, typename Y, int kSize, int kRows>
__global__ void __launch_bounds__(kMostThreads) FinishKernel(FinishArgs<P, Y> args) {
  WaitForEarlierKernels();
  const int64_t first_row = blockIdx.x / args.pieces * int64_t{kRows};
  const int piece = blockIdx.x % args.pieces;
  const int column = (piece * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * kSize;
  if (column >= args.width) return;
  Vec<P, kSize> products[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = min(first_row + r, args.num_rows - 1);
    products[r] =
        *reinterpret_cast<const Vec<P, kSize>*>(args.product + row * args.product_stride + column);
  }
  float bias[kSize], up_bias[kSize];
  LoadBias(args.bias, args.bias_dtype, column, bias);
  if (args.gated) LoadBias(args.bias, args.bias_dtype, args.width + column, up_bias);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = first_row + r;
    if (row >= args.num_rows) return;
    float values[kSize];
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] = ToFloat(products[r].values[j]) + bias[j];
    ActivateAll(args.activation, values);
    if (args.gated) {
      float up[kSize];
      LoadFloats<kSize>(args.product + row * args.product_stride + args.width + column, up);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] *= up[j] + up_bias[j];
    }
    if (args.softcap > 0.0f) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] = args.softcap * tanhf(values[j] / args.softcap);
    }
    if (args.residual != nullptr) {
      float residual[kSize];
      LoadFloats<kSize>(args.residual + row * args.residual_stride + column, residual);
#pragma unroll
      for (int j = 0; j < kSize; ++j) values[j] += residual[j];
    }
    StoreFloats<kSize>(values, args.y + row * args.y_stride + column);
  }
}

template <typename P, typename Y>
FinishArgs<P, Y> MakeFinishArgs(const FinishParams& params) {
  FinishArgs<P, Y> args = {};
  args.product = params.product.as<P>();
  args.bias = params.bias.data;
  args.residual = params.residual.as<Y>();
  args.y = params.y.as<Y>();
  args.product_stride = params.product.row_stride;
  args.residual_stride = params.residual.row_stride;
  args.y_stride = params.y.row_stride;
  args.num_rows = params.y.num_rows();
  args.width = static_cast<int>(params.y.dim(-1));
  args.bias_dtype = params.bias.dtype;
  args.activation = params.activation;
  args.gated = params.gated;
  args.softcap = params.softcap;
  return args;
}

template <typename P, typename Y, int kSize, int kRows>
void LaunchFinish(Device& device, FinishArgs<P, Y> args) {
  const int64_t vectors = CeilDiv(args.width, kSize);
  args.pieces = static_cast<int>(CeilDiv(vectors, kMostThreads));
  const int threads = ThreadsFor(CeilDiv(vectors, args.pieces), kMostThreads);
  const int64_t groups = CeilDiv(args.num_rows, kRows);
  LaunchOverlapped(device, "MatMul's epilogue", FinishKernel<P, Y, kSize, kRows>,
                   groups * args.pieces, threads, /*shared_bytes=*/0, args);
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

}  // namespace

void Finish(Device& device, const FinishParams& params) {
  const auto launch = [&]<typename P, typename Y>() {
    const FinishArgs<P, Y> args = MakeFinishArgs<P, Y>(params);
    constexpr int kSize = kVecSize<P> < kVecSize<Y> ? kVecSize<P> : kVecSize<Y>;
    const bool vectorizable = IsVectorizable(params.product) && IsVectorizable(params.residual) &&
                              IsVectorizable(params.y) && args.width % kVecSize<P> == 0 &&
                              reinterpret_cast<uintptr_t>(args.bias) % 16 == 0;
    const int64_t threads = args.num_rows * args.width / (vectorizable ? kSize : 1);
    const int64_t busy =
        int64_t{kBlocksPerMultiprocessor} * device.num_multiprocessors() * kMostThreads;
    const bool many = threads >= kManyRows * busy;
    if (vectorizable) {
      many ? LaunchFinish<P, Y, kSize, kManyRows>(device, args)
           : LaunchFinish<P, Y, kSize, 1>(device, args);
    } else {
      many ? LaunchFinish<P, Y, 1, kManyRows>(device, args)
           : LaunchFinish<P, Y, 1, 1>(device, args);
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
  const dim3 grid(static_cast<unsigned>(num_rows),
                  static_cast<unsigned>(CeilDiv(row_stride, kThreads)));
  DispatchFloat(x.dtype, [&]<typename T>() {
    PadColumnsKernel<T><<<grid, kThreads, 0, device.stream()>>>(
        x.as<T>(), x.row_stride, static_cast<int>(x.dim(-1)), padded.as<T>(), row_stride);
  });
  device.CheckLaunch("MatMul's padding");
  return padded;
}

}  // namespace beamline::cuda
