// Code shared by the launchers of stream_tiles.cuh, for each kind of weight.
#pragma once

#include <algorithm>
#include <optional>

#include "kernels/cuda/products/stream_tiles.cuh"
#include "kernels/cuda/products/stream_tiles_product.h"
#include "kernels/input_norm.h"

namespace beamline::cuda {

// The number of clusters of `split` blocks that the device holds at once.
template <typename Kernel>
int64_t NumStreamClusters(Device& device, Kernel* kernel, int split, cudaLaunchConfig_t config) {
  if (split == 1) return device.num_multiprocessors();
  config.gridDim = dim3(static_cast<unsigned>(split));
  int clusters = 0;
  device.Check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), "a product of few rows");
  return clusters;
}

template <typename... Params, typename... Args>
void LaunchStream(Device& device, void (*kernel)(Params...), int64_t tiles, int split,
                  int64_t shared_bytes, const Args&... args) {
  constexpr char kWhat[] = "a product of few rows";
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)),
               kWhat);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(split);
  attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.blockDim = dim3(kStreamThreads);
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = device.stream();
  config.attrs = attributes;
  config.numAttrs = 1;
  const int64_t clusters = std::min(NumStreamClusters(device, kernel, split, config), tiles);
  if (!device.ok()) return;
  config.gridDim = dim3(static_cast<unsigned>(clusters * split));
  if (split == 1) config.attrs = attributes + 1;
  config.numAttrs = split == 1 ? 1 : 2;
  device.Check(cudaLaunchKernelEx(&config, kernel, args...), kWhat);
}

// Launches the kernel for `params` and a weight of `out_features`. REQUIRES: the weight's members
// of `args` are set.
template <typename Weight, typename Params>
void MultiplyStream(Device& device, const Params& params, int64_t out_features,
                    StreamOperands<typename Weight::Activation> args, StreamSplit wanted) {
  using T = typename Weight::Activation;
  using Layout = StreamLayout<Weight>;
  args.num_rows = static_cast<int>(params.x.num_rows());
  const std::optional<int> split = PickStreamSplit(args.in_features, wanted);
  BEAMLINE_CHECK(args.num_rows >= kFewestStreamRows && args.num_rows <= kMostStreamRows &&
                 !HasInputNorm(params) && IsVectorizable(params.x) &&
                 args.in_features % Layout::kStepColumns == 0 && split.has_value());
  args.split = *split;
  args.rank_columns = static_cast<int>(StreamRankColumns(args.in_features, *split));
  args.x = params.x.template as<T>();
  args.x_stride = params.x.row_stride;
  WithOutput<T>(params, [&]<typename Output>(const Output& output) {
    constexpr bool kHasKernel = !Output::kPaired || Output::kTakesNorm;
    BEAMLINE_CHECK(kHasKernel);  // logits have no gate
    if constexpr (kHasKernel) {
      const auto features = static_cast<int>(out_features);
      constexpr int kUnits = Output::kPaired ? kStreamFeatures / 2 : kStreamFeatures;
      args.num_units = Output::kPaired ? features / 2 : features;
      LaunchStream(device, StreamTilesKernel<Weight, Output>, CeilDiv(args.num_units, kUnits),
                   args.split, StreamSharedBytes<Layout>(), args, output);
    }
  });
}

}  // namespace beamline::cuda
