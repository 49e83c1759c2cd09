// Checks addresses of servers in gRPC's syntax.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace beamline {

// OK for "host:port", "[::1]:port", "unix:/path", "unix-abstract:name" and gRPC's other schemes.
// Else INVALID_ARGUMENT "WHAT is 'TARGET'; accepted: ...". A port is required: gRPC itself would
// default to 443.
absl::Status CheckTarget(std::string_view what, const std::string& target);

}  // namespace beamline
