// Where a test's random inputs begin. A check of a change must depend on the change alone, so the
// seed is one number; TEST_SEED=random, as on a GPU and before a release, looks for the
// inputs that nobody thought of, and TEST_SEED=N repeats what it found.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>

#include "base/check.h"

namespace beamline {

inline uint32_t TestSeed() {
  const char* const given = std::getenv("TEST_SEED");
  if (given == nullptr) return 20240229;
  const std::string_view text = given;
  uint32_t seed = 0;
  if (text == "random") {
    seed = std::random_device{}();
    std::printf("TEST_SEED=%u\n", seed);
    return seed;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  BEAMLINE_CHECK(error == std::errc() && end == text.data() + text.size());
  return seed;
}

}  // namespace beamline
