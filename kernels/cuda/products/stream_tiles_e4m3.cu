// Products of 2 to 8 rows and a weight of e4m3 numbers.
#include "kernels/cuda/products/stream_tiles_launch.cuh"
#include "kernels/cuda/products/stream_tiles_product.h"

namespace beamline::cuda {

void StreamTilesProduct(Device& device, const MatMulParams& params, const E4m3Matrix& weight,
                        StreamSplit split) {
  const bool blocks = weight.scales.rank == 2;
  BEAMLINE_CHECK(weight.row_stride % 16 == 0 && SizeOf(params.x.dtype) == 2);
  const auto launch = [&]<typename T>() {
    StreamOperands<T> args = {};
    args.weight = static_cast<const char*>(weight.data);
    args.scales = weight.scales.as<float>();
    args.row_bytes = weight.row_stride;
    args.in_features = static_cast<int>(weight.in_features);
    args.scale_step = blocks ? static_cast<int>(weight.scales.row_stride)
                             : static_cast<int>(weight.scales.num_elements() > 1);
    using Rows = E4m3Weight<T, ScaleKind::kRows>;
    static_assert(StreamLayout<Rows>::kStepColumns == kStreamStepOfE4m3);
    blocks ? MultiplyStream<E4m3Weight<T, ScaleKind::kBlocks>>(device, params, weight.out_features,
                                                               args, split)
           : MultiplyStream<Rows>(device, params, weight.out_features, args, split);
  };
  params.x.dtype == DType::kFloat16 ? launch.template operator()<__half>()
                                    : launch.template operator()<__nv_bfloat16>();
}

}  // namespace beamline::cuda
