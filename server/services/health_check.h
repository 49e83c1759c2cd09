// Asks a running server for its health: `beamline-server --health`, for supervisors that run a
// program as a check.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/security/tls_files.h"

namespace beamline {

// Asks grpc.health.v1 at `address` (host:port); true if the server as a whole is SERVING.
// UNAVAILABLE or the like, naming the address, without an answer; DEADLINE_EXCEEDED after
// `timeout`. `tls`: the files of a server with TLS. Its certificate is not checked, as an expired
// one is no reason to stop a server. If clients need a certificate, the check shows the server's
// own.
absl::StatusOr<bool> AskHealth(const std::string& address, std::chrono::milliseconds timeout,
                               const std::optional<TlsFiles>& tls = std::nullopt);

}  // namespace beamline
