// Random numbers for schedules and requests, identical on every platform and standard library.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace beamline::loadtest {

// SplitMix64 (Steele, Lea, Flood 2014). Cheap to seed, so every request has a generator of its own
// and does not depend on earlier requests.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // A generator for one part of what `seed` controls. Numbers of different parts are uncorrelated.
  Random(uint64_t seed, uint64_t part) : state_(Mix(seed ^ Mix(part + kIncrement))) {}

  uint64_t Next() {
    state_ += kIncrement;
    return Mix(state_);
  }

  // [0, 1)
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // [low, high]. REQUIRES: low <= high, high - low < 2^32.
  int64_t UniformInt(int64_t low, int64_t high) {
    const auto range = static_cast<uint64_t>(high - low) + 1;
    return low + static_cast<int64_t>(((Next() >> 32) * range) >> 32);
  }

  double Exponential(double mean) { return -mean * std::log1p(-Uniform()); }

  // Mean 0, variance 1.
  double Normal() {
    const double radius = std::sqrt(-2 * std::log1p(-Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  static constexpr uint64_t kIncrement = 0x9e3779b97f4a7c15;

  static uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

}  // namespace beamline::loadtest
