// Products of 2 to 8 rows and a weight in the activations' type.
#include "kernels/cuda/products/stream_tiles_product.h"

#include "kernels/cuda/products/stream_tiles_launch.cuh"

namespace beamline::cuda {
namespace {

template <typename Params>
void Multiply(Device& device, const Params& params, const CudaWeight& weight, StreamSplit split) {
  const auto launch = [&]<typename T>() {
    StreamOperands<T> args = {};
    args.weight = static_cast<const char*>(weight.data());
    args.row_bytes = weight.row_stride() * static_cast<int64_t>(sizeof(T));
    args.in_features = static_cast<int>(weight.in_features());
    static_assert(StreamLayout<PlainWeight<T>>::kStepColumns == kStreamStepOf16Bits);
    MultiplyStream<PlainWeight<T>>(device, params, weight.out_features(), args, split);
  };
  BEAMLINE_CHECK(SizeOf(weight.dtype()) == 2);
  weight.dtype() == DType::kFloat16 ? launch.template operator()<__half>()
                                    : launch.template operator()<__nv_bfloat16>();
}

}  // namespace

void StreamTilesProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                        StreamSplit split) {
  Multiply(device, params, weight, split);
}

void StreamTilesProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                        StreamSplit split) {
  Multiply(device, params, weight, split);
}

}  // namespace beamline::cuda
