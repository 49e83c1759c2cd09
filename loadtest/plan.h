// The plan of a run: what it sends and when. Programs that send the same load to other servers read
// it (loadtest/peers).
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "loadtest/options.h"
#include "loadtest/workload/request_factory.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {

// The line of one request. Its messages are in proto JSON with the proto field names, so that
// reading them back gives the same messages. INVALID_ARGUMENT if a text is not UTF-8.
absl::StatusOr<nlohmann::json> PlannedRequest(const Request& request, const std::string& class_name,
                                              std::chrono::nanoseconds intended);

// Writes what RunLoadTest with the same flags would send, in schema "beamline.plan/1"
// (docs/loadtest.md). The plan depends only on the flags and the server's models. INVALID_ARGUMENT
// for loads whose send times depend on the answers: closed loops and batches in the client.
absl::Status PlanLoadTest(const RunFlags& flags);

}  // namespace beamline::loadtest
