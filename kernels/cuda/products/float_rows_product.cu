// Float32 products of one to four short rows and a weight of many features, such as logits. Every
// warp has the rows in registers and loops over neighbouring features. So a row is read once, and
// the weights of the next features are in flight while the last sums are added.
#include "kernels/cuda/products/float_rows_product.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/products/float_parts.cuh"
#include "kernels/cuda/products/skinny_output.cuh"

namespace beamline::cuda {
namespace {

constexpr int kWarps = kFloatRowsWarps;
constexpr int kBlocksPerSm = kFloatRowsBlocksPerSm;
constexpr int kChunks = 4;  // of a row, per lane
static_assert(kChunks * kWarpColumns == kMostFloatRowsColumns);
constexpr int kTurnFeatures = 2;

struct FeatureChunks {
  uint4 chunks[kTurnFeatures][kChunks];

  // Reads nothing of features after the last one.
  __device__ void Load(const SkinnyOperands<float>& args, int feature, int end, int lane) {
#pragma unroll
    for (int f = 0; f < kTurnFeatures; ++f) {
      const float* row = args.Row(feature + f);
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
        const int column = i * kWarpColumns + lane * kFloatChunk;
        chunks[f][i] = {};
        LoadWeightIf(feature + f < end && column < args.in_features, row + column, chunks[f][i]);
      }
    }
  }
};

// Grid: blocks that all run at once; their warps divide the features. Bound by memory: the weight
// is read once.
template <int kRows, typename Output>
__global__ void __launch_bounds__(kWarps* kWarpSize, kBlocksPerSm)
    FloatRowsKernel(SkinnyOperands<float> args, Output output) {
  constexpr int kSums = kRows * kTurnFeatures;
  static_assert(SumsLeft(kSums) == 1);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t warp = blockIdx.x * kWarps + threadIdx.x / kWarpSize;
  const int64_t num_warps = gridDim.x * kWarps;
  const int begin = static_cast<int>(warp * args.num_units / num_warps);
  const int end = static_cast<int>((warp + 1) * args.num_units / num_warps);
  FeatureChunks weight;
  weight.Load(args, begin, end, lane);
  WaitForEarlierKernels();
  float x[kRows][kChunks][kFloatChunk];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int column = i * kWarpColumns + lane * kFloatChunk;
      LoadChunkIf(r < args.num_rows && column < args.in_features,
                  args.x + r * args.x_stride + column, x[r][i]);
    }
  }
#pragma unroll 1
  for (int feature = begin; feature < end; feature += kTurnFeatures) {
    float sums[kSums] = {};
#pragma unroll
    for (int f = 0; f < kTurnFeatures; ++f) {
#pragma unroll
      for (int i = 0; i < kChunks; ++i) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          float& sum = sums[r * kTurnFeatures + f];
          sum = Dot(weight.chunks[f][i], x[r][i], sum);
        }
      }
    }
    weight.Load(args, feature + kTurnFeatures, end, lane);
    const int index = SumOverWarp<kSums>(sums, lane);
    const int row = index / kTurnFeatures;
    const int unit = feature + index % kTurnFeatures;
    if ((lane & SumsRepeat(kSums)) == 0 && row < args.num_rows && unit < end) {
      typename Output::Inputs inputs = output.LoadWeights(row, unit);
      output.LoadRest(row, unit, inputs);
      output.Store(row, unit, inputs, sums[0], 0.0f);
    }
  }
}

template <typename Output>
void Launch(Device& device, const SkinnyOperands<float>& args, const Output& output) {
  const auto launch = [&]<int kRows>() {
    LaunchOverlapped(device, "a float32 product of few rows and many features",
                     FloatRowsKernel<kRows, Output>, kBlocksPerSm * device.num_multiprocessors(),
                     kWarps * kWarpSize, /*shared_bytes=*/0, args, output);
  };
  args.num_rows == 1 ? launch.template operator()<1>()
                     : launch.template operator()<kMostFloatRowsRows>();
}

}  // namespace

void FloatRowsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight) {
  WithOutput<float>(params, [&]<typename Output>(const Output& output) {
    BEAMLINE_CHECK(!Output::kPaired);
    if constexpr (!Output::kPaired) {
      Launch(device, MakeSkinnyOperands<float>(params.x, weight, /*paired=*/false), output);
    }
  });
}

}  // namespace beamline::cuda
