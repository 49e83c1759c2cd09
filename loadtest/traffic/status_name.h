// gRPC's status codes by name.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace beamline::loadtest {

// "OK", "CANCELLED", ...; "CODE_42" for codes that gRPC does not know.
std::string StatusName(grpc::StatusCode code);

// INVALID_ARGUMENT "WHAT is 'NAME'; accepted: ..." when no code has this name.
absl::Status CheckStatusName(std::string_view what, const std::string& name);

}  // namespace beamline::loadtest
