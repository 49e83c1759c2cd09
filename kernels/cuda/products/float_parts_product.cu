// Float32 products of one to four rows and a small weight, as in the decode steps of one request.
// No tensor core multiplies float32. All of a block's weight, gain and bias is in registers before
// WaitForEarlierKernels.
#include "kernels/cuda/products/float_parts_product.h"

#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/products/float_parts.cuh"
#include "kernels/cuda/products/skinny_output.cuh"

namespace beamline::cuda {
namespace {

// kGroups groups of kGroupWarps warps divide a block's output features, and the warps of a group
// divide the columns. Each thread multiplies its columns of all rows by those of kFeatures
// features.
template <int kRowsOfBlock, int kGroupsOfBlock, int kWarpsOfGroup, int kFeaturesOfGroup>
struct FloatParts {
  static constexpr int kRows = kRowsOfBlock;
  static constexpr int kGroups = kGroupsOfBlock;
  static constexpr int kGroupWarps = kWarpsOfGroup;
  static constexpr int kFeatures = kFeaturesOfGroup;
  static constexpr int kUnits = kGroups * kFeatures;
  static constexpr int kThreads = kGroups * kGroupWarps * kWarpSize;
  static constexpr int kSums = kRows * kFeatures;  // of a warp
  static_assert(kRows * kUnits <= kThreads);
};

// Grid: one block per Parts::kUnits output features. Bound by the latencies of the rows, their norm
// and the sums.
template <typename Output, typename Parts, typename InputNorm>
__global__ void __launch_bounds__(Parts::kThreads, 2)
    FloatPartsKernel(SkinnyOperands<float> args, Output output, InputNorm norm) {
  constexpr int kRows = Parts::kRows, kFeatures = Parts::kFeatures, kUnits = Parts::kUnits;
  __shared__ float partials[Parts::kGroups][Parts::kGroupWarps][Parts::kSums];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize;
  const int group_warp = thread / kWarpSize % Parts::kGroupWarps;
  const int group = thread / kWarpSize / Parts::kGroupWarps;
  const int column = (group_warp * kWarpSize + lane) * kFloatChunk;
  const bool inside = column < args.in_features;
  const int begin = static_cast<int>(blockIdx.x) * kUnits;
  uint4 weight[kFeatures];
#pragma unroll
  for (int f = 0; f < kFeatures; ++f) {
    // A block with missing units computes the last unit in their place. Those sums are not read.
    const int unit = min(begin + group * kFeatures + f, args.num_units - 1);
    weight[f] = {};
    LoadWeightIf(inside, args.Row(output.First(unit)) + column, weight[f]);
  }
  uint4 gain = {}, bias = {};
  if constexpr (InputNorm::kNorms) {
    LoadEarlyIf(inside, norm.norm.gain + column, gain);
    LoadEarlyIf(inside && norm.norm.bias != nullptr, norm.norm.bias + column, bias);
  }
  OwnUnit<Output, kUnits> own(output, begin, args.num_rows, args.num_units);
  WaitForEarlierKernels();
  float x[kRows][kFloatChunk];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    LoadChunkIf(inside && r < args.num_rows, args.x + r * args.x_stride + column, x[r]);
  }
  own.LoadRest(output);
  if constexpr (InputNorm::kNorms) {
    NormRows<Parts::kGroups, Parts::kGroupWarps>(norm, group, group_warp, gain, bias, x);
    if (blockIdx.x == 0 && group == 0 && inside) {
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (r >= args.num_rows) break;
        StoreFloats<kFloatChunk>(x[r], norm.normed + r * norm.normed_stride + column);
      }
    }
  }
  float sums[Parts::kSums] = {};
#pragma unroll
  for (int f = 0; f < kFeatures; ++f) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float& sum = sums[r * kFeatures + f];
      sum = Dot(weight[f], x[r], sum);
    }
  }
  const int first = SumOverWarp<Parts::kSums>(sums, lane);
  if ((lane & SumsRepeat(Parts::kSums)) == 0) {
#pragma unroll
    for (int i = 0; i < SumsLeft(Parts::kSums); ++i) {
      partials[group][group_warp][first + i] = sums[i];
    }
  }
  __syncthreads();
  if (!own.exists) return;
  const int index = own.row * kFeatures + own.of_block % kFeatures;
  constexpr int kChains = 4;  // of independent additions
  float chains[kChains] = {};
#pragma unroll
  for (int w = 0; w < Parts::kGroupWarps; ++w) {
    chains[w % kChains] += partials[own.of_block / kFeatures][w][index];
  }
  const float sum = (chains[0] + chains[1]) + (chains[2] + chains[3]);
  output.Store(own.row, own.unit, own.inputs, sum, 0.0f);
}

static_assert(kFloatPartsNormStep == kWarpColumns);

// Calls launch with the parts of blocks of units_per_block units.
template <int kRows, bool kNorms, typename Launch>
void WithParts(int in_features, int units_per_block, const Launch& launch) {
  if (in_features > kShortFloatPartsColumns) {
    BEAMLINE_CHECK(!kNorms && units_per_block == 4);
    if constexpr (!kNorms) launch.template operator()<FloatParts<kRows, 1, 16, 4>>();
    return;
  }
  switch (units_per_block) {
    case 4:
      return launch.template operator()<FloatParts<kRows, 2, 4, 2>>();
    case 12:
      return launch.template operator()<FloatParts<kRows, 2, 4, 6>>();
    default:
      BEAMLINE_CHECK(units_per_block == 16);
      return launch.template operator()<FloatParts<kRows, 2, 4, 8>>();
  }
}

template <typename Output, typename InputNorm>
void Launch(Device& device, const SkinnyOperands<float>& args, const Output& output,
            const InputNorm& norm, int units_per_block) {
  const auto launch = [&]<typename Parts>() {
    LaunchOverlapped(device, "a float32 product of few rows",
                     FloatPartsKernel<Output, Parts, InputNorm>,
                     CeilDiv(args.num_units, Parts::kUnits), Parts::kThreads, /*shared_bytes=*/0,
                     args, output, norm);
  };
  constexpr bool kNorms = InputNorm::kNorms;
  args.num_rows == 1
      ? WithParts<1, kNorms>(args.in_features, units_per_block, launch)
      : WithParts<kMostFloatPartsRows, kNorms>(args.in_features, units_per_block, launch);
}

template <typename Params>
void Multiply(Device& device, const Params& params, const CudaWeight& weight, int units_per_block) {
  WithOutput<float>(params, [&]<typename Output>(const Output& output) {
    BEAMLINE_CHECK(!Output::kPaired);
    if constexpr (!Output::kPaired) {
      const auto args = MakeSkinnyOperands<float>(params.x, weight, /*paired=*/false);
      HasInputNorm(params)
          ? Launch(device, args, output, NormOnLoadOf<float>(params), units_per_block)
          : Launch(device, args, output, NoNorm(), units_per_block);
    }
  });
}

}  // namespace

void FloatPartsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                       int units_per_block) {
  Multiply(device, params, weight, units_per_block);
}

void FloatPartsProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                       int units_per_block) {
  Multiply(device, params, weight, units_per_block);
}

}  // namespace beamline::cuda
