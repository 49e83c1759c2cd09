// Products of 2 to 16 rows in float16 and bfloat16: tensor cores fed straight from global memory.
#include "base/math.h"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/skinny_output.cuh"
#include "kernels/cuda/products/tile_norm.cuh"

namespace beamline::cuda {
namespace {

// Warps of a block, among which the input features are divided: many where few output features make
// few blocks.
constexpr int kFewWarps = 4;
constexpr int kManyWarps = 16;
constexpr int kFeatures = 16;  // of a block
constexpr int kDepth = 32;     // input features that a step multiplies: two products of 16
constexpr int kUnroll = 4;     // steps whose loads are in flight together

__device__ inline uint4 Load16(const void* from, bool valid) {
  return valid ? *static_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
}

// sums += one step of 16 weight rows times the tiles of x^T.
template <typename T, int kRowTiles>
__device__ void MultiplyStep(const uint4& low, const uint4& high, const uint4 (&x)[kRowTiles],
                             float (&sums)[kRowTiles][4]) {
  const uint32_t first_half[4] = {low.x, high.x, low.y, high.y};
  const uint32_t second_half[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    MultiplyAdd<T>(first_half, x[r].x, x[r].y, sums[r]);
    MultiplyAdd<T>(second_half, x[r].z, x[r].w, sums[r]);
  }
}

// sums += 16 weight rows times x^T, over steps of this warp; low and high are this lane's rows
// among the first and the last eight. The order of the input features within a step is free as long
// as both operands share it: so a lane takes eight consecutive ones, a 16-byte load, where the
// instruction's layout would have it take pairs.
template <int kRowTiles, int kWarps, typename T>
__device__ void MultiplyTile(const SkinnyOperands<T>& args, const T* low, const T* high, int warp,
                             int lane, float (&sums)[kRowTiles][4]) {
  const int group = lane / 4;
  const int begin = lane % 4 * 8;
  for (int first = warp * kDepth; first < args.in_features; first += kWarps * kDepth * kUnroll) {
    uint4 a_low[kUnroll], a_high[kUnroll], b[kUnroll][kRowTiles];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int column = first + u * kWarps * kDepth + begin;
      const bool inside = column < args.in_features;
      a_low[u] = Load16(low + column, inside);
      a_high[u] = Load16(high + column, inside);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        const int row = r * 8 + group;
        b[u][r] = Load16(args.x + row * args.x_stride + column, inside && row < args.num_rows);
      }
    }
    // Keeps all loads before the first product, so that they are in flight together. The compiler,
    // to save registers, would have each step wait for its own.
    __syncwarp();
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) MultiplyStep<T>(a_low[u], a_high[u], b[u], sums);
  }
}

// The same for normed rows, in one step: the norm is computed while the weight's loads are in
// flight.
template <int kRowTiles, typename T>
__device__ void MultiplyNormedTile(const SkinnyOperands<T>& args, const NormOnLoad<T>& norm,
                                   const T* low, const T* high, int warp, int lane,
                                   float (&sums)[kRowTiles][4]) {
  static_assert(kDepth == 4 * kTileColumns);
  const int column = warp * kDepth + lane % 4 * kTileColumns;
  const bool inside = column < args.in_features;
  uint4 x[kRowTiles];
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const int row = r * 8 + lane / 4;
    x[r] = Load16(args.x + row * args.x_stride + column, inside && row < args.num_rows);
  }
  const uint4 gain = Load16(norm.norm.gain + column, inside);
  const uint4 bias = Load16(norm.norm.bias + column, inside && norm.norm.bias != nullptr);
  const uint4 a_low = Load16(low + column, inside);
  const uint4 a_high = Load16(high + column, inside);
  __syncwarp();  // keeps the compiler from moving loads behind it
  NormTile<kRowTiles>(norm, column, args.num_rows, gain, bias, x);
  MultiplyStep<T>(a_low, a_high, x, sums);
}

// The warps of a block share 16 output features, eight pairs or 16 units of their own, and divide
// the input features among them. Grid: a block per 16 features. Bound by memory: the weight is read
// once (K x N elements), x comes from cache.
template <int kRowTiles, int kWarps, typename T, typename Output, typename InputNorm>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    SkinnyTileKernel(SkinnyOperands<T> args, Output output, InputNorm input_norm) {
  constexpr int kThreads = kWarps * kWarpSize;
  __shared__ float partials[kWarps][kRowTiles * 8][kFeatures + 1];
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;
  constexpr int kUnits = Output::kPaired ? kFeatures / 2 : kFeatures;
  const int begin = blockIdx.x * kUnits;
  const int end = min(begin + kUnits, args.num_units);
  const int count = args.num_rows * kUnits;
  // Thread i completes unit i % kUnits of row i / kUnits, then goes on with i + kThreads, ...
  const auto unit_of = [&](int i) { return begin + i % kUnits; };
  // Where units are missing from the last tile its last unit stands in; nobody reads those sums.
  const int unit = min(begin + lane / 4, end - 1);
  const int second_unit = min(begin + lane / 4 + 8, end - 1);
  const T* const low = args.Row(output.First(unit));
  const T* const high = args.Row(Output::kPaired ? output.Second(unit) : output.First(second_unit));
  if (blockIdx.x < kEarlyBlocks) {
    const int columns = min(args.in_features, kEarlyColumns);
    PrefetchRow(low, columns, warp * 4 + lane % 4, kWarps * 4);
    PrefetchRow(high, columns, warp * 4 + lane % 4, kWarps * 4);
    if (warp == 0 && lane == 0) output.Prefetch(unit);
  }
  if constexpr (InputNorm::kNorms) input_norm.Prefetch();
  WaitForEarlierKernels();
  typename Output::Inputs inputs = {};
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < count && unit_of(thread) < end) {
    inputs = output.Load(thread / kUnits, unit_of(thread));
  }
  float sums[kRowTiles][4] = {};
  if constexpr (InputNorm::kNorms) {
    MultiplyNormedTile<kRowTiles>(args, input_norm, low, high, warp, lane, sums);
  } else {
    MultiplyTile<kRowTiles, kWarps>(args, low, high, warp, lane, sums);
  }
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      partials[warp][r * 8 + lane % 4 * 2 + i % 2][lane / 4 + i / 2 * 8] = sums[r][i];
    }
  }
  __syncthreads();
  for (int i = thread; i < count; i += kThreads) {
    if (unit_of(i) >= end) continue;
    const int row = i / kUnits;
    if (i >= kThreads) inputs = output.Load(row, unit_of(i));
    float sum = 0.0f, second = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float* const of_row = partials[w][row] + i % kUnits;
      sum += of_row[0];
      if (Output::kPaired) second += of_row[kFeatures / 2];
    }
    output.Store(row, unit_of(i), inputs, sum, second);
  }
}

template <typename Output>
int BlocksOf(int num_units) {
  constexpr int kUnits = Output::kPaired ? kFeatures / 2 : kFeatures;
  return CeilDiv(num_units, kUnits);
}

template <typename T, typename Output>
void Launch(Device& device, const SkinnyOperands<T>& args, const Output& output) {
  const int blocks = BlocksOf<Output>(args.num_units);
  const auto launch = [&]<int kRowTiles, int kWarps>() {
    LaunchOverlapped(device, "a product of few rows",
                     SkinnyTileKernel<kRowTiles, kWarps, T, Output, NoNorm>, blocks,
                     kWarps * kWarpSize, /*shared_bytes=*/0, args, output, NoNorm());
  };
  const bool many_warps =
      blocks < device.num_multiprocessors() && args.in_features >= kManyWarps * kDepth;
  if (args.num_rows <= 8) {
    many_warps ? launch.template operator()<1, kManyWarps>()
               : launch.template operator()<1, kFewWarps>();
  } else {
    many_warps ? launch.template operator()<2, kManyWarps>()
               : launch.template operator()<2, kFewWarps>();
  }
}

// The same behind the norm of `params`; false where it does not pay, or does not fit.
template <typename T, typename Output, typename Params>
bool LaunchWithNorm(Device& device, const SkinnyOperands<T>& args, const Output& output,
                    const Params& params) {
  const int blocks = BlocksOf<Output>(args.num_units);
  if (blocks > kMostNormingBlocks * device.num_multiprocessors()) return false;
  const auto norm = MakeNormOnLoad<T>(params);
  if (!norm.has_value()) return false;
  const auto launch = [&]<int kRowTiles>() {
    LaunchOverlapped(device, "a product of few rows behind a norm",
                     SkinnyTileKernel<kRowTiles, kNormingWarps, T, Output, NormOnLoad<T>>, blocks,
                     kNormingWarps * kWarpSize, /*shared_bytes=*/0, args, output, *norm);
  };
  args.num_rows <= 8 ? launch.template operator()<1>() : launch.template operator()<2>();
  return true;
}

// Calls body.operator()<T>() for the types of tensor cores; not for float32.
template <typename Body>
void DispatchHalf(DType dtype, Body body) {
  if (dtype == DType::kFloat16) body.template operator()<__half>();
  if (dtype == DType::kBFloat16) body.template operator()<__nv_bfloat16>();
}

template <typename Params>
bool Multiply(Device& device, const Params& params, const CudaWeight& weight) {
  bool launched = false;
  DispatchHalf(weight.dtype(), [&]<typename T>() {
    launched = WithOutput<T>(params, [&]<typename Output>(const Output& output) {
      const auto args = MakeSkinnyOperands<T>(params.x, weight, Output::kPaired);
      if (!HasInputNorm(params)) {
        Launch(device, args, output);
        return true;
      }
      if constexpr (Output::kTakesNorm) return LaunchWithNorm(device, args, output, params);
      return false;
    });
  });
  return launched;
}

}  // namespace

bool SkinnyTensorCoreProduct(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  return IsVectorizable(params.x) && Multiply(device, params, weight);
}

bool SkinnyTensorCoreProduct(Device& device, const ProjectHeadsParams& params,
                             const CudaWeight& weight) {
  return IsVectorizable(params.x) && HasPairs(params) && Multiply(device, params, weight);
}

}  // namespace beamline::cuda
