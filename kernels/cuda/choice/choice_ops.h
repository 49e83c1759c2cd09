// Operators that choose tokens and beams, one function each. They are launched on the device's
// stream. The device records faults.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/operators.h"

namespace beamline::cuda {

void Compute(Device& device, const TopCandidatesParams& params);
void Compute(Device& device, const SampleParams& params);
void Compute(Device& device, const FillTokensParams& params);
void Compute(Device& device, const AdvanceBeamsParams& params);
void Compute(Device& device, const ReorderBeamsParams& params);

}  // namespace beamline::cuda
