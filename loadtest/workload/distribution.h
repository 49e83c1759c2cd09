// A distribution of integers: prompt lengths, answer lengths, beam widths, times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "loadtest/workload/random.h"

namespace beamline::loadtest {

class Distribution {
 public:
  enum class Kind { kFixed, kUniform, kLognormal };

  explicit Distribution(int64_t value = 1) : low_(value), high_(value) {}

  // Parses "64", "uniform:16:256" (inclusive) or "lognormal:MEDIAN:SIGMA:MAX", whose values are
  // rounded and clamped to 1 .. MAX. Numbers are 0 .. 1,000,000. INVALID_ARGUMENT otherwise.
  static absl::StatusOr<Distribution> Parse(std::string_view text);

  int64_t Draw(Random& random) const;

  // The smallest and the largest possible value.
  int64_t low() const { return low_; }
  int64_t high() const { return high_; }

 private:
  Kind kind_ = Kind::kFixed;
  int64_t low_;
  int64_t high_;
  double median_ = 0;
  double sigma_ = 0;
};

}  // namespace beamline::loadtest
