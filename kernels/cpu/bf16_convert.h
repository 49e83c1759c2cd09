// float32 to bfloat16, rounded to nearest even.
#pragma once

#include <cstddef>
#include <cstdint>

namespace beamline::cpu {

void ConvertToBFloat16(const float* from, size_t count, uint16_t* to);

}  // namespace beamline::cpu
