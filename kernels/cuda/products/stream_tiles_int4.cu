// Products of 2 to 8 rows and a weight of nibbles.
#include "kernels/cuda/products/stream_tiles_launch.cuh"
#include "kernels/cuda/products/stream_tiles_product.h"

namespace beamline::cuda {

bool StreamTilesProduct(Device& device, const MatMulParams& params, const Int4Matrix& weight,
                        StreamSplit split) {
  if (weight.row_stride % 16 != 0 || weight.group_stride % 4 != 0) return false;
  const auto launch = [&]<typename T>() {
    StreamOperands<T> args = {};
    args.weight = static_cast<const char*>(weight.data);
    args.groups = static_cast<const GroupScale*>(weight.groups);
    args.row_bytes = weight.row_stride;
    args.in_features = static_cast<int>(weight.in_features);
    args.scale_step = static_cast<int>(weight.group_stride);
    return MultiplyStream<Int4Weight<T>>(device, params, weight.out_features, args, split);
  };
  if (params.x.dtype == DType::kFloat16) return launch.template operator()<__half>();
  return params.x.dtype == DType::kBFloat16 && launch.template operator()<__nv_bfloat16>();
}

}  // namespace beamline::cuda
