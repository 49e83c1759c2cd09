// Products with GELU on Hopper's tensor cores (sm_90a only). One block per multiprocessor computes
// its part of the tiles of y. One warp copies rows and weights ahead, and two warpgroups multiply a
// tile each in turn. While one of them finishes a tile, the other one has the tensor cores.
#include "kernels/cuda/products/wgmma_product.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/wgmma_product_tiles.cuh"

namespace beamline::cuda {
namespace {

using wgmma_product::Args;
using wgmma_product::kRows;
using wgmma_product::Maps;
using wgmma_product::Shape;

// Columns of a panel: about as many as fill the multiprocessors with a few tiles of rows.
constexpr int kPanelColumns = 3072;

CUtensorMap MapOf(Device& device, const Tensor& matrix, int box_rows) {
  return MakeMatrixMap(
      device, {matrix.data, matrix.num_rows(), matrix.dim(-1), matrix.row_stride, box_rows});
}

template <typename T, typename S>
void Launch(Device& device, const WgmmaProductParams& params) {
  constexpr int kBytes = sizeof(wgmma_product::Shared<T, S>) + kSwizzledAlignment;
  const auto kernel = wgmma_product::ProductKernel<T, S, Activation::kGelu>;
  device.Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "MatMul (wgmma): shared memory");
  const Maps maps = {MapOf(device, params.x, kRows),
                     MapOf(device, params.weight, S::kColumns / S::kCluster),
                     MapOf(device, params.y, kRows)};
  if (!device.ok()) return;
  Args<T> args = {};
  args.bias = params.bias.as<T>();
  args.columns = static_cast<int>(params.y.dim(-1));
  args.steps = static_cast<int>(CeilDiv(params.x.dim(-1), wgmma_product::kDepth));
  args.row_tiles = static_cast<int>(CeilDiv(params.y.num_rows(), kRows * S::kCluster));
  args.column_tiles = CeilDiv(args.columns, S::kColumns);
  args.panel = std::min(kPanelColumns / S::kColumns, args.column_tiles);
  const int64_t clusters = std::min(int64_t{args.row_tiles} * args.column_tiles,
                                    int64_t{device.num_multiprocessors() / S::kCluster});
  LaunchOverlapped(device, "MatMul (wgmma)", kernel, clusters * S::kCluster,
                   wgmma_product::kThreads, kBytes, maps, args);
}

}  // namespace

void WgmmaGeluProduct(Device& device, const WgmmaProductParams& params, WgmmaTiles tiles) {
  BEAMLINE_CHECK(device.has_wgmma() && tiles != WgmmaTiles::kNone);
  const auto launch = [&]<typename T>() {
    tiles == WgmmaTiles::kWide ? Launch<T, Shape<192, 4, 2>>(device, params)
                               : Launch<T, Shape<128, 5, 1>>(device, params);
  };
  params.x.dtype == DType::kFloat16 ? launch.template operator()<__half>()
                                    : launch.template operator()<__nv_bfloat16>();
}

}  // namespace beamline::cuda
