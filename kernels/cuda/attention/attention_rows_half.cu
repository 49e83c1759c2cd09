// attention_rows.cuh in float16: a type each, so that they compile beside each other.
#include "kernels/cuda/attention/attention_rows.cuh"

namespace beamline::cuda {

template void AttendRows(Device&, const AttentionArgs<__half>&, const AttentionParams&,
                         const AttentionChoice&);

}  // namespace beamline::cuda
