// Mixture of experts on the GPU.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/operators.h"

namespace beamline::cuda {

void Compute(Device& device, const ExpertsParams& params);

}  // namespace beamline::cuda
