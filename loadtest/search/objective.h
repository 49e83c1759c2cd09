// What a rate must keep to hold: limits of percentiles.
#pragma once

#include <array>
#include <string>

#include "absl/status/statusor.h"
#include "loadtest/report/report.h"

namespace beamline::loadtest {

// A part of a request's time that objectives can limit.
struct Latency {
  const char* flag;  // in --slo
  const char* name;  // for people
  const char* key;   // in JSON and CSV
  Histogram ClassSummary::*histogram;
};

inline constexpr std::array<Latency, 3> kLatencies = {
    {{"ttft", "first token", "time_to_first_token", &ClassSummary::time_to_first_token},
     {"itl", "per output token", "time_per_output_token", &ClassSummary::time_per_output_token},
     {"e2e", "end to end", "end_to_end", &ClassSummary::end_to_end}}};

struct Objective {
  const Latency* latency = nullptr;  // one of kLatencies
  double percentile = 99;            // 1 .. 100
  double limit_ms = 0;               // > 0

  // Of the requests that ended well; REQUIRES: there are some.
  double ValueMs(const ClassSummary& requests) const;
  bool IsOfStreams() const;
  // "end to end p99".
  std::string Name() const;
};

// "LATENCY:PERCENTILE:LIMIT", as "e2e:p99:200ms": LATENCY ttft, itl (a request's mean time between
// tokens) or e2e; PERCENTILE p1 to p100, fractions too; LIMIT with its unit, us, ms or s.
// INVALID_ARGUMENT that names `what`.
absl::StatusOr<Objective> ParseObjective(const std::string& what, const std::string& text);

}  // namespace beamline::loadtest
