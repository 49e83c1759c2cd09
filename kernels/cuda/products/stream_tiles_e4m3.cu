// Products of 2 to 8 rows and a weight of e4m3 numbers.
#include "kernels/cuda/products/stream_tiles_launch.cuh"
#include "kernels/cuda/products/stream_tiles_product.h"

namespace beamline::cuda {

bool StreamTilesProduct(Device& device, const MatMulParams& params, const E4m3Matrix& weight,
                        StreamSplit split) {
  const bool blocks = weight.scales.rank == 2;
  if (weight.row_stride % 16 != 0) return false;
  const auto launch = [&]<typename T>() {
    StreamOperands<T> args = {};
    args.weight = static_cast<const char*>(weight.data);
    args.scales = weight.scales.as<float>();
    args.row_bytes = weight.row_stride;
    args.in_features = static_cast<int>(weight.in_features);
    args.scale_step = blocks ? static_cast<int>(weight.scales.row_stride)
                             : static_cast<int>(weight.scales.num_elements() > 1);
    return blocks ? MultiplyStream<E4m3Weight<T, ScaleKind::kBlocks>>(
                        device, params, weight.out_features, args, split)
                  : MultiplyStream<E4m3Weight<T, ScaleKind::kRows>>(
                        device, params, weight.out_features, args, split);
  };
  if (params.x.dtype == DType::kFloat16) return launch.template operator()<__half>();
  return params.x.dtype == DType::kBFloat16 && launch.template operator()<__nv_bfloat16>();
}

}  // namespace beamline::cuda
