// Checks a trace's lengths against the models' limits.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "loadtest/workload/request_factory.h"
#include "loadtest/workload/trace.h"

namespace beamline::loadtest {

enum class LongLengths { kRefuse, kClip };

// "refuse" or "clip".
absl::StatusOr<LongLengths> ParseLongLengths(const std::string& what, const std::string& text);

// Checks that the workload can use a trace's lengths: all classes are generate or generate_stream,
// and no requests are repeated (num_distinct is 0).
absl::Status CheckTraceWorkload(const Workload& workload);

// Fits the lengths to the model of each request's class: prompts and answers of at least one token,
// within the model's limits. Returns how many requests changed. Unless `lengths` is kClip, the
// first of these is an INVALID_ARGUMENT error.
absl::StatusOr<int64_t> FitTrace(const std::string& what, const RequestFactory& factory,
                                 LongLengths lengths, Trace& trace);

}  // namespace beamline::loadtest
