// Division by a number that the host knows and the compiler does not.
#pragma once

#include <bit>
#include <cstdint>

#include "base/math.h"

namespace beamline::cuda {

// n / divisor for 0 <= n < 2^31 as a product and a shift: about 4 instructions instead of the 20 of
// a division. The factor is 2^shift / divisor rounded up. With shift = 31 + log2(divisor), rounded
// up, its error times n stays below 1 / divisor. Source: Granlund and Montgomery, "Division by
// Invariant Integers using Multiplication", 1994.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(int divisor)  // > 0
      : divisor_(divisor), shift_(31 + std::bit_width(static_cast<uint32_t>(divisor) - 1)) {
    factor_ = static_cast<uint32_t>(CeilDiv(uint64_t{1} << shift_, static_cast<uint64_t>(divisor)));
  }

  __host__ __device__ int value() const { return divisor_; }
  __host__ __device__ int Quotient(int n) const {
    return static_cast<int>(static_cast<uint64_t>(static_cast<uint32_t>(n)) * factor_ >> shift_);
  }

 private:
  int divisor_ = 1;
  int shift_ = 31;
  uint32_t factor_ = uint32_t{1} << 31;
};

}  // namespace beamline::cuda
