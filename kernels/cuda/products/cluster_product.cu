// Products of 17 rows and more that are too few to fill the GPU: bound by a kernel's start, the
// rows' way from L2 and its end, not by arithmetic. A cluster of blocks computes a tile of y and
// divides the input features. Each block copies its part of the weight to shared memory before the
// kernel's turn, and its part of the rows in it; wgmma multiplies 64 output features (its rows) by
// the tile's rows (its columns); every block then gets all partial sums of some of the rows, adds
// them in the order of the cluster's ranks and completes them.
#include "kernels/cuda/products/cluster_product.h"

#include <bit>

#include "base/math.h"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/cluster_launch.cuh"
#include "kernels/cuda/products/cluster_product_tiles.cuh"

namespace beamline::cuda {
namespace {

using cluster_product::Args;
using cluster_product::kDepth;
using cluster_product::kFeatures;
using cluster_product::Maps;

constexpr int kFewestStages = 3;
// With two blocks a multiprocessor, the next kernel's can come while this one's are there.
constexpr int64_t kSharedForTwoBlocks = (113 << 10) + 512;

// With `stages` of rows.
template <int kRows>
int64_t SharedBytes(const Args& args, int stages) {
  return int64_t{args.steps} * cluster_product::kWeightTile * 2 +
         int64_t{stages} * kRows * kDepth * 2 + cluster_product::SumBytes<kRows>(args.split) +
         static_cast<int64_t>(sizeof(cluster_product::Barriers));
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
  return MakeClusterOutput<T>(params);
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
