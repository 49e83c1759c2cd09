// Products of a few rows: a matrix-vector kernel that reads the weight once.
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/scalar.cuh"
#include "kernels/cuda/skinny_output.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
// Below this many units per SM a warp for each leaves the GPU idle: the block's warps then share
// each feature's row.
constexpr int kFewUnitsPerSm = 16;

// sums[r] = this thread's part of x[r] . weight row, over chunks first, first + step, ...
template <int kRows, typename T>
__device__ void Accumulate(const SkinnyOperands<T>& args, int feature, int first, int step,
                           float (&sums)[kRows]) {
  constexpr int kSize = kVecSize<T>;
  const T* weight = args.Row(feature);
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

// Grid: a warp, or with kShared a block, per unit. Bound by memory: the weight is read once (K x N
// elements), x comes from cache.
template <int kRows, bool kShared, typename T, typename Output>
__global__ void SkinnyKernel(SkinnyOperands<T> args, Output output) {
  __shared__ float partials[kWarps][2][kRows];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const int unit = kShared ? blockIdx.x : blockIdx.x * kWarps + warp;
  const bool exists = kShared || unit < args.num_units;
  const int begin = kShared ? static_cast<int>(threadIdx.x) : lane;
  const int step = kShared ? kThreads : kWarpSize;
  if (exists && blockIdx.x < kEarlyBlocks) {
    PrefetchRow(args.Row(output.First(unit)), args.in_features, begin, step);
    if (output.paired()) {
      PrefetchRow(args.Row(output.Second(unit)), args.in_features, begin, step);
    }
    if (begin == 0) output.Prefetch(unit);
  }
  WaitForEarlierKernels();
  if (!exists) return;
  // Lane r finishes row r.
  const bool finishes = (!kShared || warp == 0) && lane < args.num_rows;
  typename Output::Inputs inputs = {};
  if (finishes) inputs = output.Load(lane, unit);

  float sums[kRows] = {}, seconds[kRows] = {};
  Accumulate<kRows>(args, output.First(unit), begin, step, sums);
  if (output.paired()) Accumulate<kRows>(args, output.Second(unit), begin, step, seconds);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    sums[r] = WarpSum(sums[r]);
    if (output.paired()) seconds[r] = WarpSum(seconds[r]);
  }
  if constexpr (kShared) {
    if (lane == 0) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        partials[warp][0][r] = sums[r];
        partials[warp][1][r] = seconds[r];
      }
    }
    __syncthreads();
    if (warp != 0) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      for (int w = 1; w < kWarps; ++w) {
        sums[r] += partials[w][0][r];
        seconds[r] += partials[w][1][r];
      }
    }
  }
  if (!finishes) return;
  float sum = 0.0f, second = 0.0f;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (lane != r) continue;
    sum = sums[r];
    second = seconds[r];
  }
  output.Store(lane, unit, inputs, sum, second);
}

template <int kRows, typename T, typename Output>
void LaunchRows(Device& device, const SkinnyOperands<T>& args, const Output& output) {
  const char* const what = "a product of few rows";
  if (args.num_units < kFewUnitsPerSm * device.num_multiprocessors()) {
    LaunchOverlapped(device, what, SkinnyKernel<kRows, true, T, Output>, args.num_units, kThreads,
                     /*shared_bytes=*/0, args, output);
  } else {
    const int blocks = (args.num_units + kWarps - 1) / kWarps;
    LaunchOverlapped(device, what, SkinnyKernel<kRows, false, T, Output>, blocks, kThreads,
                     /*shared_bytes=*/0, args, output);
  }
}

template <typename T, typename Output>
void Launch(Device& device, const Tensor& x, const CudaWeight& weight, const Output& output) {
  const SkinnyOperands<T> args = MakeSkinnyOperands<T>(x, weight, output.paired());
  static_assert(kMostSkinnyRows == 8);
  if (args.num_rows == 1) {
    LaunchRows<1>(device, args, output);
  } else if (args.num_rows <= 4) {
    LaunchRows<4>(device, args, output);
  } else {
    LaunchRows<8>(device, args, output);
  }
}

}  // namespace

bool SkinnyProduct(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  if (!IsVectorizable(params.x)) return false;
  DispatchFloat(weight.dtype(), [&]<typename T>() {
    if (params.y.dtype == weight.dtype()) {
      Launch<T>(device, params.x, weight, MakeOutput<T, T>(params));
    } else {
      BEAMLINE_CHECK(params.y.dtype == DType::kFloat32);
      Launch<T>(device, params.x, weight, MakeOutput<T, float>(params));
    }
  });
  return true;
}

bool SkinnyProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight) {
  if (!IsVectorizable(params.x) || !HasPairs(params)) return false;
  DispatchFloat(weight.dtype(),
                [&]<typename T>() { Launch<T>(device, params.x, weight, MakeOutput<T>(params)); });
  return true;
}

}  // namespace beamline::cuda
