// The send times of an open loop, fixed before the run and independent of the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "loadtest/workload/random.h"
#include "loadtest/workload/rate_profile.h"
#include "loadtest/workload/trace.h"

namespace beamline::loadtest {

enum class ArrivalKind {
  kPoisson,   // independent users: exponential gaps
  kConstant,  // equal gaps
  kBurst,     // equally spaced groups of simultaneous requests
};

// "poisson", "constant", "burst".
absl::StatusOr<ArrivalKind> ParseArrivalKind(std::string_view name);
const char* ArrivalKindName(ArrivalKind kind);

struct ArrivalOptions {
  ArrivalKind kind = ArrivalKind::kPoisson;
  double rate = 1;                // mean requests per second, > 0
  std::vector<RatePhase> phases;  // replace `rate`
  int burst_size = 10;            // >= 1
  uint64_t seed = 1;
  std::shared_ptr<const Trace> trace;  // replaces all other options by its times
};

// The mean requested rate for each second until `end_s`; the last second may be partial.
std::vector<double> AskedPerSecond(const ArrivalOptions& options, double end_s);

class Arrivals {
 public:
  explicit Arrivals(const ArrivalOptions& options);

  // The next request's time since the run's start; times never decrease. RateProfile::kNever after
  // a trace's last request.
  std::chrono::nanoseconds Next();

 private:
  ArrivalOptions options_;
  RateProfile profile_;
  Random random_;
  uint64_t num_drawn_ = 0;
  // Position in the schedule in units of requests: arrivals at rate 1, which the profile maps to
  // times.
  double place_ = 0;
};

}  // namespace beamline::loadtest
