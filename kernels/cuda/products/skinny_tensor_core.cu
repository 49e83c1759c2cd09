// Products of up to 16 rows in float16 and bfloat16: tensor cores fed straight from global memory.
#include "base/math.h"
#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/skinny_output.cuh"
#include "kernels/cuda/products/tile_norm.cuh"

namespace beamline::cuda {
namespace {

// Warps of a block, which divide the input features. Many of them if few output features make few
// blocks.
constexpr int kFewWarps = 4;
constexpr int kManyWarps = 16;
constexpr int kFeatures = 16;  // of a block
constexpr int kDepth = 32;     // input features of a step: two products of 16
constexpr int kSteps = 4;      // of a turn; their loads are in flight together

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

// The parts of 16 weight rows that a lane multiplies in a turn of kTurnSteps steps. low and high
// are of the lane's rows among the first and the last eight. The order of the input features within
// a step is free if both operands share it. So a lane takes eight consecutive ones, a 16-byte load,
// instead of the pairs of the instruction's layout.
template <int kWarps, int kTurnSteps>
struct WeightTurn {
  static constexpr int kColumns = kWarps * kDepth * kTurnSteps;  // of a turn of all warps

  uint4 low[kTurnSteps], high[kTurnSteps];

  // The lane's columns start at `column`, and again after every kWarps * kDepth columns.
  template <typename T>
  __device__ void Load(const T* low_row, const T* high_row, int column, int in_features) {
#pragma unroll
    for (int u = 0; u < kTurnSteps; ++u) {
      const int at = column + u * kWarps * kDepth;
      low[u] = high[u] = {};
      LoadWeightIf(at < in_features, low_row + at, low[u]);
      LoadWeightIf(at < in_features, high_row + at, high[u]);
    }
  }
};

// sums += 16 weight rows times x^T, over the turns of this warp. The first turn is already loaded.
template <int kRowTiles, int kWarps, int kTurnSteps, typename T>
__device__ void MultiplyTile(const SkinnyOperands<T>& args, const T* low, const T* high, int column,
                             int lane, WeightTurn<kWarps, kTurnSteps>& weight,
                             float (&sums)[kRowTiles][4]) {
  const int group = lane / 4;
  for (int first = column;;) {
    uint4 x[kTurnSteps][kRowTiles];
#pragma unroll
    for (int u = 0; u < kTurnSteps; ++u) {
      const int at = first + u * kWarps * kDepth;
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        const int row = r * 8 + group;
        const bool inside = at < args.in_features && row < args.num_rows;
        x[u][r] = Load16(args.x + row * args.x_stride + at, inside);
      }
    }
    // Keeps all loads before the first product, so that they are in flight together. To save
    // registers, the compiler would otherwise make each step wait for its own load.
    __syncwarp();
#pragma unroll
    for (int u = 0; u < kTurnSteps; ++u) {
      MultiplyStep<T>(weight.low[u], weight.high[u], x[u], sums);
    }
    first += WeightTurn<kWarps, kTurnSteps>::kColumns;
    // All lanes of a warp take the same number of turns.
    if (first - column + column / kDepth * kDepth >= args.in_features) break;
    weight.Load(low, high, first, args.in_features);
  }
}

// A lane's weight, gain and bias in a product of normalised rows, which takes one step.
struct NormedStep {
  uint4 low, high, gain, bias;

  template <typename T>
  __device__ void Load(const T* low_row, const T* high_row, const NormOnLoad<T>& norm, int column,
                       int in_features) {
    const bool inside = column < in_features;
    low = high = gain = bias = {};
    LoadWeightIf(inside, low_row + column, low);
    LoadWeightIf(inside, high_row + column, high);
    LoadEarlyIf(inside, norm.norm.gain + column, gain);
    LoadEarlyIf(inside && norm.norm.bias != nullptr, norm.norm.bias + column, bias);
  }
};

// sums += 16 weight rows times the normalised x^T.
template <int kRowTiles, typename T>
__device__ void MultiplyNormedTile(const SkinnyOperands<T>& args, const NormOnLoad<T>& norm,
                                   const NormedStep& step, int column, int lane,
                                   float (&sums)[kRowTiles][4]) {
  static_assert(kDepth == 4 * kTileColumns);
  uint4 x[kRowTiles];
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
    const int row = r * 8 + lane / 4;
    x[r] = Load16(args.x + row * args.x_stride + column,
                  column < args.in_features && row < args.num_rows);
  }
  NormTile<kRowTiles>(norm, column, args.num_rows, step.gain, step.bias, x);
  MultiplyStep<T>(step.low, step.high, x, sums);
}

// The warps of a block share 16 output features, eight pairs or 16 units, and divide the input
// features. Grid: one block per 16 output features. Bound by memory: the weight is read once (K x N
// elements), x comes from the cache.
template <int kRowTiles, int kWarps, int kTurnSteps, typename T, typename Output,
          typename InputNorm>
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
  // Thread i completes unit i % kUnits of row i / kUnits, then continues with i + kThreads, ...
  const auto unit_of = [&](int i) { return begin + i % kUnits; };
  // A last tile with missing units computes its last unit in their place. Those sums are not read.
  const int unit = min(begin + lane / 4, end - 1);
  const int second_unit = min(begin + lane / 4 + 8, end - 1);
  const T* const low = args.Row(output.First(unit));
  const T* const high = args.Row(Output::kPaired ? output.Second(unit) : output.First(second_unit));
  // The weight of the first turn is in registers before WaitForEarlierKernels. The first blocks
  // also prefetch what follows it to L2.
  const int column = warp * kDepth + lane % 4 * 8;
  using Turn = WeightTurn<kWarps, kTurnSteps>;
  std::conditional_t<InputNorm::kNorms, NormedStep, Turn> weight;
  if constexpr (InputNorm::kNorms) {
    weight.Load(low, high, input_norm, column, args.in_features);
  } else {
    weight.Load(low, high, column, args.in_features);
    constexpr int kTurn = Turn::kColumns;
    if (kTurn < kEarlyColumns && args.in_features > kTurn && blockIdx.x < kEarlyBlocks) {
      const int columns = min(args.in_features, kEarlyColumns) - kTurn;
      PrefetchRow(low + kTurn, columns, warp * 4 + lane % 4, kWarps * 4);
      PrefetchRow(high + kTurn, columns, warp * 4 + lane % 4, kWarps * 4);
    }
  }
  typename Output::Inputs inputs = {};
  const int thread = static_cast<int>(threadIdx.x);
  const bool completes = thread < count && unit_of(thread) < end;
  if (completes) inputs = output.LoadWeights(thread / kUnits, unit_of(thread));
  WaitForEarlierKernels();
  if (completes) output.LoadRest(thread / kUnits, unit_of(thread), inputs);
  float sums[kRowTiles][4] = {};
  if constexpr (InputNorm::kNorms) {
    MultiplyNormedTile<kRowTiles>(args, input_norm, weight, column, lane, sums);
  } else {
    MultiplyTile<kRowTiles>(args, low, high, column, lane, weight, sums);
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
    if (i >= kThreads) {
      inputs = output.LoadWeights(row, unit_of(i));
      output.LoadRest(row, unit_of(i), inputs);
    }
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
  const auto launch = [&]<int kRowTiles, int kWarps, int kTurnSteps = kSteps>() {
    LaunchOverlapped(device, "a product of few rows",
                     SkinnyTileKernel<kRowTiles, kWarps, kTurnSteps, T, Output, NoNorm>, blocks,
                     kWarps * kWarpSize, /*shared_bytes=*/0, args, output, NoNorm());
  };
  const bool many_warps =
      blocks < device.num_multiprocessors() && args.in_features >= kManyWarps * kDepth;
  // All of a block's weight is loaded before WaitForEarlierKernels if registers have room for it.
  // The loads of a second turn would not overlap with that wait.
  constexpr int kStepColumns = kManyWarps * kDepth;
  if (many_warps && args.num_rows <= 8 && args.in_features > kSteps * kStepColumns) {
    if (args.in_features <= 6 * kStepColumns) return launch.template operator()<1, kManyWarps, 6>();
    return launch.template operator()<1, kManyWarps, 8>();
  }
  if (args.num_rows <= 8) {
    many_warps ? launch.template operator()<1, kManyWarps>()
               : launch.template operator()<1, kFewWarps>();
  } else {
    many_warps ? launch.template operator()<2, kManyWarps>()
               : launch.template operator()<2, kFewWarps>();
  }
}

// The same after the norm of `params`.
template <typename T, typename Output, typename Params>
void LaunchWithNorm(Device& device, const SkinnyOperands<T>& args, const Output& output,
                    const Params& params) {
  const auto launch = [&]<int kRowTiles>() {
    LaunchOverlapped(device, "a product of few rows behind a norm",
                     SkinnyTileKernel<kRowTiles, kNormingWarps, kSteps, T, Output, NormOnLoad<T>>,
                     BlocksOf<Output>(args.num_units), kNormingWarps * kWarpSize,
                     /*shared_bytes=*/0, args, output, NormOnLoadOf<T>(params));
  };
  args.num_rows <= 8 ? launch.template operator()<1>() : launch.template operator()<2>();
}

template <typename Params>
void Multiply(Device& device, const Params& params, const CudaWeight& weight) {
  BEAMLINE_CHECK(params.x.num_rows() <= kMostTensorCoreSkinnyRows);
  const auto launch = [&]<typename T>() {
    WithOutput<T>(params, [&]<typename Output>(const Output& output) {
      const auto args = MakeSkinnyOperands<T>(params.x, weight, Output::kPaired);
      if (!HasInputNorm(params)) return Launch(device, args, output);
      BEAMLINE_CHECK(Output::kTakesNorm);
      if constexpr (Output::kTakesNorm) LaunchWithNorm(device, args, output, params);
    });
  };
  weight.dtype() == DType::kFloat16 ? launch.template operator()<__half>()
                                    : launch.template operator()<__nv_bfloat16>();
}

}  // namespace

void SkinnyTensorCoreProduct(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  Multiply(device, params, weight);
}

void SkinnyTensorCoreProduct(Device& device, const ProjectHeadsParams& params,
                             const CudaWeight& weight) {
  Multiply(device, params, weight);
}

}  // namespace beamline::cuda
