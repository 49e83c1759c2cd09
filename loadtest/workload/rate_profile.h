// How the rate of an open loop changes over a run: phases of a constant or a linearly changing
// rate.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace beamline::loadtest {

struct RatePhase {
  double from = 0;  // requests a second at its begin
  double to = 0;    // and at its end
  double seconds = 0;
};

// "RATE:SECONDS" or "FROM..TO:SECONDS"; INVALID_ARGUMENT that names `what`.
absl::StatusOr<RatePhase> ParseRatePhase(const std::string& what, const std::string& text);

class RateProfile {
 public:
  // The last phase's final rate goes on after its end.
  // REQUIRES: phases not empty; rates finite and >= 0, seconds > 0.
  explicit RateProfile(std::vector<RatePhase> phases);
  // One rate for ever.
  explicit RateProfile(double rate) : RateProfile({{rate, rate, 1}}) {}

  // Requests that are due until `time_s`, in the mean.
  double CountAt(double time_s) const;
  // The time at which so many are due: CountAt's inverse; kNever when that many never are.
  double TimeOf(double count) const;

  static constexpr double kNever = 1e9;  // seconds

 private:
  std::vector<RatePhase> phases_;
};

}  // namespace beamline::loadtest
