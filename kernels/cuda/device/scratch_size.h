// How much scratch memory a device has before any operator asks for more (Scratch, device.h).
#pragma once

#include <cstddef>

namespace beamline::cuda {

// An operator that takes no more than this never grows a model's device memory while it serves.
inline constexpr size_t kFirstScratchBytes = size_t{20} << 20;

}  // namespace beamline::cuda
