// The first size of a device's scratch memory (Scratch, device.h).
#pragma once

#include <cstddef>

namespace beamline::cuda {

// An operator that needs no more than this never grows a model's device memory while it serves.
inline constexpr size_t kFirstScratchBytes = size_t{20} << 20;

}  // namespace beamline::cuda
