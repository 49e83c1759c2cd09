// Converts gRPC statuses to absl statuses, with their error details. Internal to the client.
#pragma once

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

// The payload of an absl::Status that holds its google.rpc.Status.
inline constexpr char kDetailsPayload[] = "type.googleapis.com/google.rpc.Status";

absl::Status ToStatus(const grpc::Status& status);
absl::Status ToStatus(const google::rpc::Status& error);
// The google.rpc.Status in the status's payload; empty if there is none.
google::rpc::Status GetDetails(const absl::Status& status);

}  // namespace beamline
