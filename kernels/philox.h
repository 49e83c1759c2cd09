// Philox4x32-10: a random number as a pure function of a key and a counter. Source: Salmon et al.,
// "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace beamline {

constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

// A number in [0, 1) with 53 random bits: key = seed, counter = (position, sequence, 0, 0).
constexpr double UniformDraw(uint64_t seed, uint32_t sequence, uint32_t position) {
  const auto bits = Philox4x32({position, sequence, 0, 0},
                               {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<double>((uint64_t{bits[0]} << 32 | bits[1]) >> 11) * 0x1p-53;
}

}  // namespace beamline
