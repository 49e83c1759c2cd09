// Times mixture-of-experts layers on a GPU.
#pragma once

#include "bench/kernels/gpu_bench.h"

namespace beamline {

void TimeExperts(Bench& bench);

}  // namespace beamline
