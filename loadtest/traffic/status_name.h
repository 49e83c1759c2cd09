// gRPC's status codes by name.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <string>

namespace beamline::loadtest {

// "OK", "CANCELLED", ...; "CODE_42" for codes that gRPC does not know.
std::string StatusName(grpc::StatusCode code);

}  // namespace beamline::loadtest
