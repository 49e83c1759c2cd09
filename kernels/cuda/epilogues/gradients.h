// The gradient epilogues, for LtMatMul::set_gradients.
#pragma once

#include "kernels/cuda/epilogues/lt_gradients.h"

namespace beamline::cuda {

// Lives as long as the program. It has no state: any number of threads and devices may use it.
const LtGradients& Gradients();

}  // namespace beamline::cuda
