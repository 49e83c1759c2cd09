// attention_rows.cuh in float32: a type each, so that they compile beside each other.
#include "kernels/cuda/attention/attention_rows.cuh"

namespace beamline::cuda {

template void AttendRows(Device&, const AttentionArgs<float>&, const AttentionParams&,
                         const AttentionChoice&);

}  // namespace beamline::cuda
