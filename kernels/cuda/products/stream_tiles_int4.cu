// Products of 2 to 8 rows and a weight of 4-bit numbers.
#include "kernels/cuda/products/stream_tiles_launch.cuh"
#include "kernels/cuda/products/stream_tiles_product.h"

namespace beamline::cuda {

void StreamTilesProduct(Device& device, const MatMulParams& params, const Int4Matrix& weight,
                        StreamSplit split) {
  BEAMLINE_CHECK(weight.row_stride % 16 == 0 && weight.group_stride % 4 == 0 &&
                 SizeOf(params.x.dtype) == 2);
  const auto launch = [&]<typename T>() {
    StreamOperands<T> args = {};
    args.weight = static_cast<const char*>(weight.data);
    args.groups = static_cast<const GroupScale*>(weight.groups);
    args.row_bytes = weight.row_stride;
    args.in_features = static_cast<int>(weight.in_features);
    args.scale_step = static_cast<int>(weight.group_stride);
    static_assert(StreamLayout<Int4Weight<T>>::kStepColumns == kStreamStepOfInt4);
    MultiplyStream<Int4Weight<T>>(device, params, weight.out_features, args, split);
  };
  params.x.dtype == DType::kFloat16 ? launch.template operator()<__half>()
                                    : launch.template operator()<__nv_bfloat16>();
}

}  // namespace beamline::cuda
