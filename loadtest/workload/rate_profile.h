// The rate of an open loop over a run: phases with a constant or a linearly changing rate.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace beamline::loadtest {

struct RatePhase {
  double from = 0;  // requests per second at its start
  double to = 0;    // requests per second at its end
  double seconds = 0;
};

// Parses "RATE:SECONDS" or "FROM..TO:SECONDS"; INVALID_ARGUMENT that names `what`.
absl::StatusOr<RatePhase> ParseRatePhase(const std::string& what, const std::string& text);

class RateProfile {
 public:
  // The last phase's final rate continues after its end. REQUIRES: phases not empty; rates finite
  // and >= 0, seconds > 0.
  explicit RateProfile(std::vector<RatePhase> phases);
  // A constant rate without end.
  explicit RateProfile(double rate) : RateProfile({{rate, rate, 1}}) {}

  // The mean number of requests due until `time_s`.
  double CountAt(double time_s) const;
  // The time at which `count` requests are due, the inverse of CountAt; kNever if that never
  // happens.
  double TimeOf(double count) const;

  static constexpr double kNever = 1e9;  // seconds

 private:
  std::vector<RatePhase> phases_;
};

}  // namespace beamline::loadtest
