// gRPC's statuses as absl's, with the details of errors. Internal to the client.
#pragma once

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

// Under this payload an absl::Status carries its google.rpc.Status.
inline constexpr char kDetailsPayload[] = "type.googleapis.com/google.rpc.Status";

absl::Status ToStatus(const grpc::Status& status);
absl::Status ToStatus(const google::rpc::Status& error);
// The google.rpc.Status that the status carries; an empty one when there is none.
google::rpc::Status GetDetails(const absl::Status& status);

}  // namespace beamline
