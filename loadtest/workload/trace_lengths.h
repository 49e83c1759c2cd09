// Lengths of a trace against what the models take.
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

// That the workload's classes can have a trace's lengths: generate and generate_stream, each
// request its own.
absl::Status CheckTraceWorkload(const Workload& workload);

// Makes the lengths fit the model of each request's class: prompts and answers of at least one
// token, and no more than the model takes. Returns how many requests had to be changed;
// INVALID_ARGUMENT for the first of them unless `lengths` is kClip.
absl::StatusOr<int64_t> FitTrace(const std::string& what, const RequestFactory& factory,
                                 LongLengths lengths, Trace& trace);

}  // namespace beamline::loadtest
