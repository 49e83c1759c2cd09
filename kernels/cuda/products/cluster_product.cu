// Products of 17 rows and more that are too few to fill the GPU. They are bound by the kernel's
// start and end and the loads of the rows from L2, not by arithmetic. A cluster of blocks computes
// a tile of y and divides the input features. Each block copies its part of the weight to shared
// memory before WaitForEarlierKernels, and its part of the rows after it. wgmma multiplies 64
// output features (its rows) by the tile's rows (its columns). Every block then gets all partial
// sums of some of the rows, adds them in the order of the cluster's ranks and completes them.
#include "kernels/cuda/products/cluster_product.h"

#include <bit>

#include "base/math.h"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/cluster_output.cuh"
#include "kernels/cuda/products/cluster_product_tiles.cuh"

namespace beamline::cuda {
namespace {

using cluster_product::Args;
using cluster_product::kDepth;
using cluster_product::kFeatures;
using cluster_product::Maps;

constexpr int kFewestStages = 3;
// With two blocks per multiprocessor, the next kernel's blocks fit beside those of this kernel.
constexpr int64_t kSharedForTwoBlocks = (113 << 10) + 512;

// With `stages` stages of rows.
template <int kRows>
int64_t SharedBytes(const Args& args, int stages) {
  return int64_t{args.steps} * cluster_product::kWeightTile * 2 +
         int64_t{stages} * kRows * kDepth * 2 + cluster_product::SumBytes<kRows>(args.split) +
         static_cast<int64_t>(sizeof(cluster_product::Barriers));
}

// Launches `kernel` in clusters of grid.x blocks, with blocks of `threads` threads and shared_bytes
// of dynamic shared memory. It starts early (launch.cuh). Faults become the device's; `what` names
// the launch in them.
template <typename... Params, typename... Args>
void LaunchInClusters(Device& device, const char* what, void (*kernel)(Params...), dim3 grid,
                      int threads, int64_t shared_bytes, const Args&... args) {
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(device.properties().sharedMemPerBlockOptin)),
               what);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = grid.x;
  attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = device.stream();
  config.attrs = attributes;
  config.numAttrs = 2;
  if (device.ok()) device.Check(cudaLaunchKernelEx(&config, kernel, args...), what);
}

template <int kRows, typename T, typename Output>
void Launch(Device& device, const Tensor& x, const CudaWeight& weight, const ClusterTiles& tiles,
            const Output& output) {
  const int split = tiles.split;
  Args args = {};
  args.num_rows = static_cast<int>(x.num_rows());
  args.total_steps = static_cast<int>(CeilDiv(weight.in_features(), int64_t{kDepth}));
  args.steps = CeilDiv(args.total_steps, split);
  args.split = split;
  args.rows_shift = std::countr_zero(static_cast<unsigned>(kRows / split));
  args.stages = args.steps;
  while (args.stages > kFewestStages &&
         SharedBytes<kRows>(args, args.stages) > kSharedForTwoBlocks) {
    --args.stages;
  }
  const int64_t shared_bytes = SharedBytes<kRows>(args, args.stages);
  const auto most_bytes = static_cast<int64_t>(device.properties().sharedMemPerBlockOptin);
  BEAMLINE_CHECK(args.steps <= kMostClusterSteps && shared_bytes <= most_bytes);

  const auto kernel = cluster_product::ClusterProductKernel<T, kRows, Output>;
  const Maps maps = {
      MakeMatrixMap(device, {x.data, x.num_rows(), weight.in_features(), x.row_stride, kRows}),
      MakeMatrixMap(device, {weight.data(), weight.padded_rows(), weight.in_features(),
                             weight.row_stride(), kFeatures})};
  if (!device.ok()) return;
  const dim3 grid(static_cast<unsigned>(split),
                  static_cast<unsigned>(CeilDiv(weight.out_features(), int64_t{kFeatures})),
                  static_cast<unsigned>(CeilDiv(args.num_rows, kRows)));
  LaunchInClusters(device, "a product of some rows", kernel, grid, cluster_product::kThreads,
                   shared_bytes, maps, args, output);
}

template <typename T>
ClusterHeads<T> MakeOutput(const ProjectHeadsParams& params, const CudaWeight& weight) {
  return {MakeHeadPlaces<T>(params), params.bias.as<T>(), Divisor(params.head_dim),
          static_cast<int>(weight.out_features())};
}

template <typename T>
ClusterMatMul<T> MakeOutput(const MatMulParams& params, const CudaWeight& /*weight*/) {
  return {params.bias.data,
          params.residual.as<T>(),
          params.y.as<T>(),
          params.residual.row_stride,
          params.y.row_stride,
          static_cast<int>(params.y.dim(-1)),
          params.bias.dtype == DType::kFloat32,
          params.activation};
}

template <typename Params>
void Multiply(Device& device, const Params& params, const CudaWeight& weight,
              const ClusterTiles& tiles) {
  BEAMLINE_CHECK(tiles.rows == 32 || tiles.rows == 64);
  const auto launch = [&]<typename T>() {
    const auto output = MakeOutput<T>(params, weight);
    tiles.rows == 32 ? Launch<32, T>(device, params.x, weight, tiles, output)
                     : Launch<64, T>(device, params.x, weight, tiles, output);
  };
  weight.dtype() == DType::kFloat16 ? launch.template operator()<__half>()
                                    : launch.template operator()<__nv_bfloat16>();
}

}  // namespace

void ClusterProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                    const ClusterTiles& tiles) {
  Multiply(device, params, weight, tiles);
}

void ClusterProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                    const ClusterTiles& tiles) {
  Multiply(device, params, weight, tiles);
}

}  // namespace beamline::cuda
