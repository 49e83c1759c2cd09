// Names of gRPC's status codes.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace beamline::loadtest {

// "OK", "CANCELLED", ...; "CODE_42" for unknown codes.
std::string StatusName(grpc::StatusCode code);

// INVALID_ARGUMENT "WHAT is 'NAME'; accepted: ..." if no code has this name.
absl::Status CheckStatusName(std::string_view what, const std::string& name);

}  // namespace beamline::loadtest
