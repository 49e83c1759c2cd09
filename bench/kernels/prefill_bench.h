// Attention over the prompts or texts of a batch: cases of cuda_op_bench.
#pragma once

#include "bench/kernels/gpu_bench.h"

namespace beamline {

void TimePrefills(Bench& bench);

}  // namespace beamline
