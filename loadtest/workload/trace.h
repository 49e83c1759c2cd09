// Arrivals and lengths of real traffic, as public traces of LLM services have them.
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
  int32_t line = 0;  // of the file
};

// In the order of their times.
using Trace = std::vector<TraceEntry>;

inline constexpr int32_t kMostTraceTokens = 10'000'000;

// CSV with a line of columns' names. Of these, in any order and among others, it has one set:
//   arrival_s, prompt_tokens, output_tokens            seconds since the run's start
//   TIMESTAMP, ContextTokens, GeneratedTokens          Azure's: date and time
//   timestamp, input_length, output_length             Mooncake's: milliseconds
//   Timestamp, Request tokens, Response tokens         BurstGPT's: seconds
// All but the first count from their earliest time. Lines may stand in any order; those of one time
// keep theirs. A byte order mark, CR LF, cells in quotes and empty lines are taken.
// INVALID_ARGUMENT names `what`, the line and the column.
absl::StatusOr<Trace> ParseTrace(const std::string& what, std::string_view csv);
absl::StatusOr<Trace> ReadTrace(const std::string& path);

// In the form with arrival_s; ParseTrace reads the same from it.
std::string TraceCsv(const Trace& trace);

}  // namespace beamline::loadtest
