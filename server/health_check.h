// Whether a server that runs already can answer: `beamline-server --health`, for supervisors that
// start a program to find out.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/security/tls_files.h"

namespace beamline {

// What grpc.health.v1 at `address` (host:port) says of the server as a whole: whether it is
// SERVING. UNAVAILABLE or the like, naming the address, when nobody there says it;
// DEADLINE_EXCEEDED after `timeout`. With the files of a server that speaks TLS it is asked so; its
// certificate is not checked, as an expired one is no reason to end a server. Where clients need a
// certificate, the server's own is shown to it.
absl::StatusOr<bool> AskHealth(const std::string& address, std::chrono::milliseconds timeout,
                               const std::optional<TlsFiles>& tls = std::nullopt);

}  // namespace beamline
