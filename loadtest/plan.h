// The plan of a run: what it sends and when, for programs that send the same to other servers
// (loadtest/peers).
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "loadtest/options.h"
#include "loadtest/workload/request_factory.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {

// The line of one request. Its messages are in the JSON form of the contract, with its field names:
// reading them back gives the same messages. INVALID_ARGUMENT when a text is not UTF-8.
absl::StatusOr<nlohmann::json> PlannedRequest(const Request& request, const std::string& class_name,
                                              std::chrono::nanoseconds intended);

// Writes what RunLoadTest with the same flags sends: schema "beamline.plan/1" (docs/loadtest.md),
// the same for the same flags and models of the server. INVALID_ARGUMENT for a load whose times
// only its run decides: a closed loop, batches in the client.
absl::Status PlanLoadTest(const RunFlags& flags);

}  // namespace beamline::loadtest
