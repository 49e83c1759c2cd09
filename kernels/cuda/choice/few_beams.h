// ReorderBeams for few beams.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/operators.h"

namespace beamline::cuda {

// Computes a call in one launch, if it has host_tables and its groups are small. Returns false, and
// does nothing, for other calls.
bool ReorderFewBeams(Device& device, const ReorderBeamsParams& params);

}  // namespace beamline::cuda
