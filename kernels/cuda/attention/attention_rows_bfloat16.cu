// attention_rows.cuh in bfloat16. Each type has its own file, so that they compile in parallel.
#include "kernels/cuda/attention/attention_rows.cuh"

namespace beamline::cuda {

template void AttendRows(Device&, const AttentionArgs<__nv_bfloat16>&, const AttentionParams&,
                         const AttentionChoice&);

}  // namespace beamline::cuda
