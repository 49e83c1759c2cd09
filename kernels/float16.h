// Conversions of single numbers to and from the 16-bit floating-point types.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace beamline {

inline float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline float FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals
    return std::copysign(static_cast<float>(mantissa) * 0x1p-24f, std::bit_cast<float>(sign));
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (mantissa << 13));
}

// Rounds to nearest even. NaN stays NaN.
inline uint16_t ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// The same. Values that round above 65504 become infinite.
inline uint16_t ToFloat16(float value) {
  const uint32_t sign = (std::bit_cast<uint32_t>(value) >> 16) & 0x8000u;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x1p-14f) {  // the result is a multiple of 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint32_t>(std::nearbyint(magnitude * 0x1p24f)));
  }
  const uint32_t rebased = std::bit_cast<uint32_t>(magnitude) - (112u << 23);
  return static_cast<uint16_t>(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13));
}

}  // namespace beamline
