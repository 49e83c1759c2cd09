// attention_tensor_core.cuh in float16. Each type has its own file, so that they compile in
// parallel.
#include "kernels/cuda/attention/attention_tensor_core.cuh"

namespace beamline::cuda {

template void AttendTensorCore(Device&, const AttentionArgs<__half>&, const AttentionParams&, int);

}  // namespace beamline::cuda
