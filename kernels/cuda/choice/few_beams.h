// ReorderBeams of few beams.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/operators.h"

namespace beamline::cuda {

// Computes a call whose tables the host knows and whose groups are small, in one launch; returns
// whether it is one.
bool ReorderFewBeams(Device& device, const ReorderBeamsParams& params);

}  // namespace beamline::cuda
