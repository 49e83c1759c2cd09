// Whole numbers: divisions and sizes that are rounded up.
#pragma once

#include <bit>
#include <cstdint>

namespace beamline {

// How many pieces of size b cover a. REQUIRES: a >= 0, b > 0, a + b - 1 is in range.
template <typename A, typename B>
constexpr auto CeilDiv(A a, B b) {
  return (a + b - 1) / b;
}

// The least multiple of b that is at least a. REQUIRES: as of CeilDiv.
template <typename A, typename B>
constexpr auto RoundUp(A a, B b) {
  return CeilDiv(a, b) * b;
}

// The least size that is at least `value`, of those that divide each doubling (2^k to 2^(k+1)) into
// `steps` equal steps: fewer sizes than values, and at most a 1/(steps + 1) of a size is padding.
// REQUIRES: value > steps, steps is a power of two.
template <typename T>
constexpr T RoundUpInDoubling(T value, T steps) {
  return RoundUp(value, static_cast<T>(std::bit_floor(static_cast<uint64_t>(value - 1))) / steps);
}

}  // namespace beamline
