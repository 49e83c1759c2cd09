// Whether a server that runs already can answer: `beamline-server --health`, for supervisors that
// start a program to find out.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace beamline {

// What grpc.health.v1 at `address` (host:port) says of the server as a whole: whether it is
// SERVING. UNAVAILABLE or the like, naming the address, when nobody there says it;
// DEADLINE_EXCEEDED after `timeout`.
absl::StatusOr<bool> AskHealth(const std::string& address, std::chrono::milliseconds timeout);

}  // namespace beamline
