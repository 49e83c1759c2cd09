// attention_tensor_core.cuh in bfloat16: a type each, so that they compile beside each other.
#include "kernels/cuda/attention/attention_tensor_core.cuh"

namespace beamline::cuda {

template void AttendTensorCore(Device&, const AttentionArgs<__nv_bfloat16>&, const AttentionParams&,
                               int);

}  // namespace beamline::cuda
