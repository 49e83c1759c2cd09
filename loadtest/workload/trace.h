// Arrival times and lengths of real traffic, in the formats of public LLM traces.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace beamline::loadtest {

struct TraceEntry {
  std::chrono::nanoseconds time{0};  // since the run's start
  int32_t prompt_tokens = 0;
  int32_t output_tokens = 0;
  int32_t line = 0;  // in the file
};

// Ordered by time.
using Trace = std::vector<TraceEntry>;

inline constexpr int32_t kMostTraceTokens = 10'000'000;

// Parses CSV with a header line. The columns may be in any order and among others, but one of these
// sets must be present:
//   arrival_s, prompt_tokens, output_tokens            seconds since the run's start
//   TIMESTAMP, ContextTokens, GeneratedTokens          Azure: date and time
//   timestamp, input_length, output_length             Mooncake: milliseconds
//   Timestamp, Request tokens, Response tokens         BurstGPT: seconds
// All but the first format count from their earliest time. Lines may be in any order; lines with
// equal times keep theirs. A byte order mark, CR LF, quoted cells and empty lines are accepted.
// INVALID_ARGUMENT names `what`, the line and the column.
absl::StatusOr<Trace> ParseTrace(const std::string& what, std::string_view csv);
absl::StatusOr<Trace> ReadTrace(const std::string& path);

// In the format with arrival_s; ParseTrace can read it back.
std::string TraceCsv(const Trace& trace);

}  // namespace beamline::loadtest
