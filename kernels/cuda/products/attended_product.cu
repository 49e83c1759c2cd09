// One short text's attention with the product behind it: bound by the start of a kernel and the
// rows' way through L2, of which this leaves one of two. A cluster of blocks divides the heads as
// cluster_product.cu divides input features, since a head's columns are a step of the product: a
// block computes attention of its heads for the tile's rows into shared memory, by tensor cores
// with softmax on the way, and multiplies that from there.
#include "kernels/cuda/products/attended_product.h"

#include <bit>
#include <numbers>

#include "base/math.h"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/products/attended_product_tiles.cuh"
#include "kernels/cuda/products/cluster_launch.cuh"
#include "kernels/input_norm.h"

namespace beamline::cuda {
namespace {

using attended_product::Args;
using attended_product::Maps;
using cluster_product::kDepth;
using cluster_product::kFeatures;

template <int kRows>
int64_t SharedBytes(const Args& args) {
  const int64_t tiles = int64_t{args.product.steps} * (1 + 2 * args.key_tiles);
  return 2 * (args.product.steps * cluster_product::kWeightTile + tiles * kRows * kDepth) +
         cluster_product::SumBytes<kRows>(args.product.split) +
         static_cast<int64_t>(sizeof(attended_product::Barriers));
}

template <int kRows, typename T>
bool Launch(Device& device, const AttentionParams& attention, const MatMulParams& params,
            const CudaWeight& weight, int split) {
  const int64_t num_rows = params.x.num_rows();
  Args args = {};
  cluster_product::Args& product = args.product;
  product.num_rows = static_cast<int>(num_rows);
  product.total_steps = attention.num_heads;
  product.steps = product.stages = CeilDiv(product.total_steps, split);
  product.split = split;
  product.rows_shift = std::countr_zero(static_cast<unsigned>(kRows / split));
  args.key_tiles = CeilDiv(product.num_rows, kRows);
  args.group_size = attention.num_heads / attention.num_kv_heads;
  args.log2_factor = std::numbers::log2e_v<float> * attention.scale;
  const int64_t shared_bytes = SharedBytes<kRows>(args);
  if (product.steps > attended_product::kMostHeads ||
      shared_bytes > static_cast<int64_t>(device.properties().sharedMemPerBlockOptin)) {
    return false;
  }
  const auto map_of = [&](const Tensor& x) {
    return MakeMatrixMap(device, {x.data, num_rows, x.dim(-1), x.row_stride, kRows});
  };
  const Maps maps = {map_of(attention.query), map_of(attention.key), map_of(attention.value),
                     MakeMatrixMap(device, {weight.data(), weight.padded_rows(),
                                            weight.in_features(), weight.row_stride(), kFeatures})};
  if (!device.ok()) return true;
  const dim3 grid(static_cast<unsigned>(split),
                  static_cast<unsigned>(CeilDiv(weight.out_features(), int64_t{kFeatures})),
                  static_cast<unsigned>(args.key_tiles));
  LaunchInClusters(
      device, "a product of attention",
      attended_product::AttendedProductKernel<T, kRows, ClusterMatMul<T>>, grid,
      attended_product::kThreads, shared_bytes, maps, args, MakeClusterOutput<T>(params),
      attended_product::Attended<T>{attention.output.as<T>(), attention.output.row_stride});
  return true;
}

}  // namespace

bool MayBeAttended(const Device& device, const AttentionParams& params) {
  return device.has_wgmma() && !device.batch_invariant() && params.cache == nullptr &&
         params.num_sequences == 1 && params.query.num_rows() <= kMostAttendedRows &&
         params.head_dim == kDepth && SizeOf(params.query.dtype) == 2 && !params.causal &&
         params.window == 0 && params.softcap == 0.0f && params.alibi_slopes == nullptr &&
         params.position_bias.empty() && params.relative.empty();
}

bool AttendedProduct(Device& device, const AttentionParams& attention, const MatMulParams& params,
                     const ClusterTiles& tiles) {
  const auto& weight = static_cast<const CudaWeight&>(*params.weight);
  if (tiles.rows == 0 || HasInputNorm(params) || params.softcap > 0.0f || !SuitsCluster(params) ||
      params.x.data != attention.output.data ||
      params.x.row_stride != attention.output.row_stride ||
      params.x.num_rows() != attention.query.num_rows() ||
      params.x.dim(-1) != attention.output.dim(-1) || weight.dtype() != params.x.dtype) {
    return false;
  }
  for (const Tensor* tensor : {&attention.query, &attention.key, &attention.value}) {
    if (!IsAlignedTo(*tensor, 16)) return false;
  }
  if (!IsAlignedTo(attention.output, 16)) return false;
  const auto launch = [&]<typename T>() {
    return tiles.rows == 32 ? Launch<32, T>(device, attention, params, weight, tiles.split)
                            : Launch<64, T>(device, attention, params, weight, tiles.split);
  };
  return weight.dtype() == DType::kFloat16 ? launch.template operator()<__half>()
                                           : launch.template operator()<__nv_bfloat16>();
}

bool AttendedProduct(Device& device, const AttentionParams& attention, const MatMulParams& params) {
  // With more rows attention by a few blocks, once, is faster than by each tile of features.
  constexpr int64_t kMostRows = 32;
  if (params.x.num_rows() > kMostRows) return false;
  return AttendedProduct(
      device, attention, params,
      PickClusterTiles(params.x.num_rows(), params.weight->in_features(),
                       params.weight->out_features(), device.num_multiprocessors()));
}

}  // namespace beamline::cuda
