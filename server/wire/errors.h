// The only place where an absl::Status becomes an API error with google.rpc details.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace beamline {

// OUT_OF_RANGE: the answer has at least `bytes` bytes, and the server sends at most `limit`.
absl::Status AnswerTooLarge(int64_t bytes, int64_t limit);

// A RESOURCE_EXHAUSTED with this payload does not pass by itself, so it gets no RetryInfo.
inline constexpr char kNotSoonPayload[] = "beamline.not_soon";

// True if the error is the server's own fault, and belongs in its log.
bool IsFaultOfTheServer(absl::StatusCode code);

// Converts to the API's error. A FieldError (base/field_error.h) gets a BadRequest with the field's
// path in the API. RESOURCE_EXHAUSTED gets a RetryInfo. The text of the server's own faults may
// name files, so it is left out, unless the engine marks it as public (kPublicErrorPayload). Texts
// are always valid UTF-8.
google::rpc::Status ToRpcStatus(const absl::Status& status);
grpc::Status ToGrpcStatus(const google::rpc::Status& status);
grpc::Status ToGrpcStatus(const absl::Status& status);

}  // namespace beamline
