// Integer arithmetic that rounds up.
#pragma once

#include <bit>
#include <cstdint>

namespace beamline {

// The number of pieces of size b that cover a. REQUIRES: a >= 0, b > 0, a + b - 1 is in range.
template <typename A, typename B>
constexpr auto CeilDiv(A a, B b) {
  return (a + b - 1) / b;
}

// The smallest multiple of b that is at least a. REQUIRES: as for CeilDiv.
template <typename A, typename B>
constexpr auto RoundUp(A a, B b) {
  return CeilDiv(a, b) * b;
}

// The smallest allowed size that is at least `value`. Allowed sizes split each doubling (2^k to
// 2^(k+1)) into `steps` equal steps. So there are few sizes, and at most 1/(steps + 1) of a size is
// padding. REQUIRES: value > steps, steps is a power of two.
template <typename T>
constexpr T RoundUpInDoubling(T value, T steps) {
  return RoundUp(value, static_cast<T>(std::bit_floor(static_cast<uint64_t>(value - 1))) / steps);
}

}  // namespace beamline
