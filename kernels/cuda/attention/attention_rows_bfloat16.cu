// attention_rows.cuh in bfloat16: a type each, so that they compile beside each other.
#include "kernels/cuda/attention/attention_rows.cuh"

namespace beamline::cuda {

template void AttendRows(Device&, const AttentionArgs<__nv_bfloat16>&, const AttentionParams&,
                         const AttentionChoice&);

}  // namespace beamline::cuda
