// One rate of a search: what was measured at it, and whether it holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loadtest/report/report.h"
#include "loadtest/search/objective.h"

namespace beamline::loadtest {

struct Probe {
  double rate = 0;        // requests a second that were asked for
  double duration_s = 0;  // without the warm-up
  double warmup_s = 0;
  // Requests due in that time, and those that ended well in it, whenever they were due.
  double sent_per_s = 0;
  double answered_per_s = 0;
  ClassSummary total;
  bool interrupted = false;
  bool holds = false;
  std::string why;  // it does not

  double Seconds() const { return warmup_s + duration_s; }
  // Whether it ran to its end and had requests, so that it says something of its rate.
  bool IsMeasured() const { return !interrupted && total.NumRequests() > 0; }
};

struct ProbeLimits {
  std::vector<Objective> objectives;
  double max_error_share = 0;  // of the requests, those without an answer included
  double max_lateness_ms = 0;  // of the sender, p99
  double min_answered = 0;     // answered_per_s over sent_per_s
};

// Sets `holds` and `why`: the first of the limits that the probe breaks.
void Judge(const ProbeLimits& limits, Probe& probe);

}  // namespace beamline::loadtest
