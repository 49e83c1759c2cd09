// MatMul for a few rows: a matrix-vector kernel that reads the weight once.
#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
// Below this many features per SM a warp for each leaves the GPU idle: the block's warps then share
// each feature's row.
constexpr int kFewFeaturesPerSm = 16;

template <typename T, typename Y>
struct SkinnyArgs {
  const T* x;
  const T* weight;
  const void* bias;
  const Y* residual;
  Y* y;
  int64_t x_stride, weight_stride, residual_stride, y_stride;
  int num_rows, in_features, out_features;  // out_features: columns of y
  DType bias_dtype;
  Activation activation;
  bool gated;
};

template <typename T>
__device__ float BiasOf(const void* bias, DType dtype, int feature) {
  if (bias == nullptr) return 0.0f;
  if (dtype == DType::kFloat32) return static_cast<const float*>(bias)[feature];
  return ToFloat(static_cast<const T*>(bias)[feature]);
}

// sums[r] = this thread's part of x[r] . weight row, over chunks first, first + step, ...
template <int kRows, typename T, typename Y>
__device__ void Accumulate(const SkinnyArgs<T, Y>& args, int64_t feature, int first, int step,
                           float (&sums)[kRows]) {
  constexpr int kSize = kVecSize<T>;
  const T* weight = args.weight + feature * args.weight_stride;
#pragma unroll 4
  for (int column = first * kSize; column < args.in_features; column += step * kSize) {
    float w[kSize];
    LoadFloats<kSize>(weight + column, w);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= args.num_rows) break;
      float x[kSize];
      LoadFloats<kSize>(args.x + r * args.x_stride + column, x);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sums[r] += w[j] * x[j];
    }
  }
}

// Grid: a warp, or with kShared a block, per output feature. Bound by memory: the weight is read
// once (K x N elements), x comes from cache.
template <int kRows, bool kShared, typename T, typename Y>
__global__ void SkinnyKernel(SkinnyArgs<T, Y> args) {
  __shared__ float partials[kWarps][2][kRows];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const int feature = kShared ? blockIdx.x : blockIdx.x * kWarps + warp;
  if (!kShared && feature >= args.out_features) return;
  const int first = kShared ? static_cast<int>(threadIdx.x) : lane;
  const int step = kShared ? kThreads : kWarpSize;

  float sums[kRows] = {}, ups[kRows] = {};
  Accumulate<kRows>(args, feature, first, step, sums);
  if (args.gated) Accumulate<kRows>(args, feature + args.out_features, first, step, ups);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    sums[r] = WarpSum(sums[r]);
    if (args.gated) ups[r] = WarpSum(ups[r]);
  }
  if constexpr (kShared) {
    if (lane == 0) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        partials[warp][0][r] = sums[r];
        partials[warp][1][r] = ups[r];
      }
    }
    __syncthreads();
    if (warp != 0) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      for (int w = 1; w < kWarps; ++w) {
        sums[r] += partials[w][0][r];
        ups[r] += partials[w][1][r];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (lane != r || r >= args.num_rows) continue;
    float value =
        Activate(args.activation, sums[r] + BiasOf<T>(args.bias, args.bias_dtype, feature));
    if (args.gated) {
      value *= ups[r] + BiasOf<T>(args.bias, args.bias_dtype, feature + args.out_features);
    }
    if (args.residual != nullptr)
      value += ToFloat(args.residual[r * args.residual_stride + feature]);
    args.y[r * args.y_stride + feature] = FromFloat<Y>(value);
  }
}

template <int kRows, typename T, typename Y>
void Launch(Device& device, const SkinnyArgs<T, Y>& args) {
  if (args.out_features < kFewFeaturesPerSm * device.num_multiprocessors()) {
    SkinnyKernel<kRows, true>
        <<<static_cast<unsigned>(args.out_features), kThreads, 0, device.stream()>>>(args);
    device.CheckLaunch("MatMul (few rows)");
  } else {
    const int blocks = (args.out_features + kWarps - 1) / kWarps;
    SkinnyKernel<kRows, false>
        <<<static_cast<unsigned>(blocks), kThreads, 0, device.stream()>>>(args);
    device.CheckLaunch("MatMul (few rows)");
  }
}

template <typename T, typename Y>
void Launch(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  SkinnyArgs<T, Y> args = {};
  args.x = params.x.as<T>();
  args.weight = static_cast<const T*>(weight.data());
  args.bias = params.bias.data;
  args.residual = params.residual.as<Y>();
  args.y = params.y.as<Y>();
  args.x_stride = params.x.row_stride;
  args.weight_stride = weight.row_stride();
  args.residual_stride = params.residual.row_stride;
  args.y_stride = params.y.row_stride;
  args.num_rows = static_cast<int>(params.x.num_rows());
  args.in_features = static_cast<int>(weight.in_features());
  args.out_features = static_cast<int>(params.y.dim(-1));
  args.bias_dtype = params.bias.dtype;
  args.activation = params.activation;
  args.gated = params.gated;
  static_assert(kMostSkinnyRows == 8);
  if (args.num_rows == 1) {
    Launch<1>(device, args);
  } else if (args.num_rows <= 4) {
    Launch<4>(device, args);
  } else {
    Launch<8>(device, args);
  }
}

}  // namespace

bool SkinnyMatMul(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  if (!IsVectorizable(params.x)) return false;
  DispatchFloat(weight.dtype(), [&]<typename T>() {
    if (params.y.dtype == weight.dtype()) {
      Launch<T, T>(device, params, weight);
    } else {
      BEAMLINE_CHECK(params.y.dtype == DType::kFloat32);
      Launch<T, float>(device, params, weight);
    }
  });
  return true;
}

}  // namespace beamline::cuda
