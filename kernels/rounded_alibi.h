// ALiBi with the arithmetic of Falcon in transformers, which counts from a sequence's first key in
// bfloat16. All devices share it, so that they round alike.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/host_device.h"

namespace beamline {

// Rounds to the nearest bfloat16, ties to even. REQUIRES: x is finite.
BEAMLINE_HOST_DEVICE inline float RoundToBFloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}

// The addend for the score of the key at position `key` (AttentionParams::rounded_alibi_factor).
BEAMLINE_HOST_DEVICE inline float RoundedAlibi(float slope, int key, float factor) {
  const float position = RoundToBFloat16(static_cast<float>(key));
  return RoundToBFloat16(RoundToBFloat16(slope) * position) * factor;
}

}  // namespace beamline
