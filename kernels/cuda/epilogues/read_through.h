// What empties the GPU's L2 cache of what it holds.
#pragma once

#include <cstddef>

#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// Reads `bytes` of device memory, whatever they hold, in the device's stream. Reads and not writes:
// lines that were written would go to memory while the next kernel runs. A fault is the device's.
void ReadThrough(Device& device, const void* memory, size_t bytes);

}  // namespace beamline::cuda
