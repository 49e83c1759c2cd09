// A probe of a rate search: what was measured at one rate, and whether the rate holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadtest/report/report.h"
#include "loadtest/search/objective.h"

namespace beamline::loadtest {

struct Probe {
  double rate = 0;        // requested rate, in requests per second
  double duration_s = 0;  // without the warm-up
  double warmup_s = 0;
  // Requests due in this time, and requests that succeeded in it, even if due earlier.
  double sent_per_s = 0;
  double answered_per_s = 0;
  ClassSummary total;
  bool interrupted = false;
  bool holds = false;
  std::string why;  // why the rate does not hold

  double Seconds() const { return warmup_s + duration_s; }
  // Whether it ran to its end and sent requests, so that it is a valid measurement.
  bool IsMeasured() const { return !interrupted && total.NumRequests() > 0; }
};

struct ProbeLimits {
  std::vector<Objective> objectives;
  double max_error_share = 0;  // share of the requests, including unanswered ones
  double max_lateness_ms = 0;  // p99 of the send delay
  double min_answered = 0;     // answered_per_s over sent_per_s
};

// Sets `holds`, and `why` to the first violated limit.
void Judge(const ProbeLimits& limits, Probe& probe);

}  // namespace beamline::loadtest
