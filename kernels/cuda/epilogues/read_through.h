// Evicts the content of the GPU's L2 cache.
#pragma once

#include <cstddef>

#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// Reads `bytes` of device memory, whatever they hold, in the device's stream. It does not write,
// because written lines would go to memory while the next kernel runs. A fault becomes the
// device's.
void ReadThrough(Device& device, const void* memory, size_t bytes);

}  // namespace beamline::cuda
