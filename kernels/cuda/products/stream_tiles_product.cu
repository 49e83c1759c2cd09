// Products of 2 to 8 rows and a weight in the activations' type.
#include "kernels/cuda/products/stream_tiles_product.h"

#include "kernels/cuda/products/stream_tiles_launch.cuh"

namespace beamline::cuda {
namespace {

template <typename Params>
bool Multiply(Device& device, const Params& params, const CudaWeight& weight, StreamSplit split) {
  const auto launch = [&]<typename T>() {
    StreamOperands<T> args = {};
    args.weight = static_cast<const char*>(weight.data());
    args.row_bytes = weight.row_stride() * static_cast<int64_t>(sizeof(T));
    args.in_features = static_cast<int>(weight.in_features());
    return MultiplyStream<PlainWeight<T>>(device, params, weight.out_features(), args, split);
  };
  if (weight.dtype() == DType::kFloat16) return launch.template operator()<__half>();
  return weight.dtype() == DType::kBFloat16 && launch.template operator()<__nv_bfloat16>();
}

}  // namespace

bool StreamTilesProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                        StreamSplit split) {
  return Multiply(device, params, weight, split);
}

bool StreamTilesProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                        StreamSplit split) {
  return HasPairs(params) && Multiply(device, params, weight, split);
}

}  // namespace beamline::cuda
