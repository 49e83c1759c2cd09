// Random device data for measurements.
#pragma once

#include <cstddef>

#include "kernels/cuda/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// Numbers in [-1, 1), the same ones at every call.
void FillRandom(Device& device, void* data, DType dtype, size_t count);

}  // namespace beamline::cuda
