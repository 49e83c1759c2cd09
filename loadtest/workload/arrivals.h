// When an open loop sends its requests: decided before the run, whatever the server does.
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
  kBurst,     // groups that arrive at once, groups equally spaced
};

// "poisson", "constant", "burst".
absl::StatusOr<ArrivalKind> ParseArrivalKind(std::string_view name);
const char* ArrivalKindName(ArrivalKind kind);

struct ArrivalOptions {
  ArrivalKind kind = ArrivalKind::kPoisson;
  double rate = 1;                // requests a second in the mean, > 0
  std::vector<RatePhase> phases;  // instead of one rate
  int burst_size = 10;            // >= 1
  uint64_t seed = 1;
  std::shared_ptr<const Trace> trace;  // whose times they are, instead of all else
};

// Requests a second that the options ask for in the mean, in each second until `end_s`, of which
// the last one may be a part.
std::vector<double> AskedPerSecond(const ArrivalOptions& options, double end_s);

class Arrivals {
 public:
  explicit Arrivals(const ArrivalOptions& options);

  // The next request's time since the run's start; never before the one before. After a trace's
  // last request RateProfile::kNever.
  std::chrono::nanoseconds Next();

 private:
  ArrivalOptions options_;
  RateProfile profile_;
  Random random_;
  uint64_t num_drawn_ = 0;
  // The request's place in the schedule, in requests: arrivals of rate 1, which the profile
  // stretches to its rates.
  double place_ = 0;
};

}  // namespace beamline::loadtest
