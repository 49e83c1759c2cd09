// Products in float32 of one to four rows and a small weight, as a decoder's steps of one request
// have them: no tensor core multiplies float32. All of a block's weight, gain and bias is in
// registers before the kernel's turn.
#include "kernels/cuda/products/float_parts_product.h"

#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/products/float_parts.cuh"
#include "kernels/cuda/products/skinny_output.cuh"

namespace beamline::cuda {
namespace {

// kGroups groups of kGroupWarps warps share a block's output features; the warps of a group divide
// the columns, and each thread multiplies its columns of all rows with those of kFeatures features.
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

// Grid: a block per Parts::kUnits output features. Bound by latencies: the rows', their norm's and
// the sums'.
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
    // Where units are missing from a block the last one stands in; nobody reads those sums.
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
  constexpr int kChains = 4;  // that do not wait for each other
  float chains[kChains] = {};
#pragma unroll
  for (int w = 0; w < Parts::kGroupWarps; ++w) {
    chains[w % kChains] += partials[own.of_block / kFeatures][w][index];
  }
  const float sum = (chains[0] + chains[1]) + (chains[2] + chains[3]);
  output.Store(own.row, own.unit, own.inputs, sum, 0.0f);
}

constexpr int kMostRows = 4;
constexpr int kShortColumns = 512, kLongColumns = 2048;

// Calls launch with the parts for `args`, where all blocks find a multiprocessor of their own.
template <int kRows, bool kNorms, typename Launch>
bool PickParts(const SkinnyOperands<float>& args, int multiprocessors, const Launch& launch) {
  const auto fits = [&](int units) { return args.num_units <= units * multiprocessors; };
  if (args.in_features <= kShortColumns) {
    if (fits(4)) return launch.template operator()<FloatParts<kRows, 2, 4, 2>>();
    if (fits(12)) return launch.template operator()<FloatParts<kRows, 2, 4, 6>>();
    if (fits(16)) return launch.template operator()<FloatParts<kRows, 2, 4, 8>>();
    return false;
  }
  if constexpr (!kNorms) {
    if (fits(4)) return launch.template operator()<FloatParts<kRows, 1, 16, 4>>();
  }
  return false;
}

template <typename Output, typename InputNorm>
bool Launch(Device& device, const SkinnyOperands<float>& args, const Output& output,
            const InputNorm& norm) {
  const auto launch = [&]<typename Parts>() {
    LaunchOverlapped(device, "a float32 product of few rows",
                     FloatPartsKernel<Output, Parts, InputNorm>,
                     CeilDiv(args.num_units, Parts::kUnits), Parts::kThreads, /*shared_bytes=*/0,
                     args, output, norm);
    return true;
  };
  constexpr bool kNorms = InputNorm::kNorms;
  const int multiprocessors = device.num_multiprocessors();
  return args.num_rows == 1 ? PickParts<1, kNorms>(args, multiprocessors, launch)
                            : PickParts<kMostRows, kNorms>(args, multiprocessors, launch);
}

template <typename Params>
bool Fits(const Params& params) {
  if (params.x.dtype != DType::kFloat32 || params.x.num_rows() > kMostRows) return false;
  if (params.x.dim(-1) > kLongColumns || !IsVectorizable(params.x)) return false;
  return !HasInputNorm(params) ||
         (params.x.dim(-1) % kWarpColumns == 0 && IsVectorizable(params.input_norm.gain) &&
          IsVectorizable(params.input_norm.bias) && IsVectorizable(params.normed));
}

template <typename Params>
bool Multiply(Device& device, const Params& params, const CudaWeight& weight) {
  if (!Fits(params)) return false;
  return WithOutput<float>(params, [&]<typename Output>(const Output& output) {
    if constexpr (Output::kPaired) {
      return false;
    } else {
      const auto args = MakeSkinnyOperands<float>(params.x, weight, /*paired=*/false);
      return HasInputNorm(params) ? Launch(device, args, output, NormOnLoadOf<float>(params))
                                  : Launch(device, args, output, NoNorm());
    }
  });
}

}  // namespace

bool FloatPartsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  return Multiply(device, params, weight);
}

bool FloatPartsProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight) {
  return Multiply(device, params, weight);
}

}  // namespace beamline::cuda
