// How much scratch memory a device has before any operator asks for more (Scratch, device.h).
#pragma once

#include <cstddef>

namespace beamline::cuda {

// What an operator takes within it never grows a model's memory while it serves.
inline constexpr size_t kFirstScratchBytes = size_t{20} << 20;

}  // namespace beamline::cuda
