// Products of a few rows: a matrix-vector kernel that reads the weight once.
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/scalar.cuh"
#include "kernels/cuda/skinny_output.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
// Blocks of a multiprocessor, which decide how many registers the compiler takes: in 16 bits warps
// are worth more than a warp's loads in flight, in float32 it would load chunk by chunk otherwise.
template <int kRows, typename T>
constexpr int kFewestBlocks = kRows == 1 ? (sizeof(T) == 2 ? 16 : 8) : 5;
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

// The same in float32, whose rows have twice the chunks: the loads of several are in flight before
// the first is used.
template <int kRows>
__device__ void Accumulate(const SkinnyOperands<float>& args, int feature, int first, int step,
                           float (&sums)[kRows]) {
  constexpr int kSize = kVecSize<float>;
  constexpr int kUnroll = kRows == 1 ? 4 : kRows <= 4 ? 2 : 1;
  const auto load = [](const float* from, bool valid) {
    return valid ? *reinterpret_cast<const float4*>(from) : float4{};
  };
  const float* weight = args.Row(feature);
  // The same turns for all lanes of a warp, which stay together.
  for (int base = 0; base < args.in_features; base += step * kSize * kUnroll) {
    float4 w[kUnroll], x[kUnroll][kRows];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int column = base + (first + u * step) * kSize;
      const bool inside = column < args.in_features;
      w[u] = load(weight + column, inside);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        x[u][r] =
            load(args.x + r * args.x_stride + column, inside && (kRows == 1 || r < args.num_rows));
      }
    }
    __syncwarp();  // no load is moved behind this
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        sums[r] += w[u].x * x[u][r].x;
        sums[r] += w[u].y * x[u][r].y;
        sums[r] += w[u].z * x[u][r].z;
        sums[r] += w[u].w * x[u][r].w;
      }
    }
  }
}

// Grid: a warp, or with kShared a block, per unit. Bound by memory: the weight is read once (K x N
// elements), x comes from cache.
template <int kRows, bool kShared, typename T, typename Output>
__global__ void __launch_bounds__(kThreads, kFewestBlocks<kRows, T>)
    SkinnyKernel(SkinnyOperands<T> args, Output output) {
  __shared__ float partials[kWarps][2][kRows];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  const int unit = kShared ? blockIdx.x : blockIdx.x * kWarps + warp;
  const bool exists = kShared || unit < args.num_units;
  const int begin = kShared ? static_cast<int>(threadIdx.x) : lane;
  const int step = kShared ? kThreads : kWarpSize;
  if (exists && blockIdx.x < kEarlyBlocks) {
    const int columns = min(args.in_features, kEarlyColumns);
    PrefetchRow(args.Row(output.First(unit)), columns, begin, step);
    if (Output::kPaired) PrefetchRow(args.Row(output.Second(unit)), columns, begin, step);
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
  if (Output::kPaired) Accumulate<kRows>(args, output.Second(unit), begin, step, seconds);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    sums[r] = WarpSum(sums[r]);
    if (Output::kPaired) seconds[r] = WarpSum(seconds[r]);
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
  const SkinnyOperands<T> args = MakeSkinnyOperands<T>(x, weight, Output::kPaired);
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
    WithOutput<T>(params, [&](const auto& output) { Launch<T>(device, params.x, weight, output); });
  });
  return true;
}

bool SkinnyProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight) {
  if (!IsVectorizable(params.x) || !HasPairs(params)) return false;
  DispatchFloat(weight.dtype(), [&]<typename T>() {
    WithOutput<T>(params, [&](const auto& output) { Launch<T>(device, params.x, weight, output); });
  });
  return true;
}

}  // namespace beamline::cuda
