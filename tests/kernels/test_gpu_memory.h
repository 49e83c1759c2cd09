// How much of a GPU a test takes: several run beside each other.
#pragma once

#include "kernels/device_memory.h"

namespace beamline {

inline constexpr GpuMemoryLimit kTestGpuMemory = {.fraction = 0.2};

}  // namespace beamline
