// The one place where an absl::Status becomes an error of the API, with google.rpc details.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace beamline {

// OUT_OF_RANGE: an answer of at least `bytes` bytes, of which the server sends at most `limit`.
absl::Status AnswerTooLarge(int64_t bytes, int64_t limit);

// A RESOURCE_EXHAUSTED with this payload does not pass by itself, so that it gets no RetryInfo.
inline constexpr char kNotSoonPayload[] = "beamline.not_soon";

// Whether the error is a fault of the server itself, which is for its log.
bool IsFaultOfTheServer(absl::StatusCode code);

// The error as the contract tells it. A FieldError (base/field_error.h) gets a BadRequest that
// names the field by its path in the contract, RESOURCE_EXHAUSTED a RetryInfo. Faults of the server
// itself are told without their text, which may name files, unless the engine says that it is for
// clients (kPublicErrorPayload). Texts are always valid UTF-8.
google::rpc::Status ToRpcStatus(const absl::Status& status);
grpc::Status ToGrpcStatus(const google::rpc::Status& status);
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace beamline
