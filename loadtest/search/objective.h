// Objectives of a rate search: limits of latency percentiles.
#pragma once

#include <array>
#include <string>

#include "absl/status/statusor.h"
#include "loadtest/report/report.h"

namespace beamline::loadtest {

// A latency that objectives can limit.
struct Latency {
  const char* flag;  // the name in --slo
  const char* name;  // display name
  const char* key;   // the key in JSON and CSV
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

  // The percentile over successful requests. REQUIRES: there are some.
  double ValueMs(const ClassSummary& requests) const;
  bool IsOfStreams() const;
  // "end to end p99".
  std::string Name() const;
};

// Parses "LATENCY:PERCENTILE:LIMIT", such as "e2e:p99:200ms". LATENCY is ttft, itl (a request's
// mean time between tokens) or e2e. PERCENTILE is p1 to p100, with fractions. LIMIT has a unit: us,
// ms or s. INVALID_ARGUMENT that names `what`.
absl::StatusOr<Objective> ParseObjective(const std::string& what, const std::string& text);

}  // namespace beamline::loadtest
