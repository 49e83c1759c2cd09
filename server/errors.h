// The one place where an absl::Status becomes an error of the API, with google.rpc details.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"

namespace beamline {

// INVALID_ARGUMENT about one field of a request; `field` is its path ("limits.stop[2]"), `problem`
// goes on from it: "is 0; accepted: 1 to 64".
absl::Status FieldError(std::string_view field, std::string_view problem);

// The same for a field or RPC that this server does not have yet: UNIMPLEMENTED.
absl::Status NotImplemented(std::string_view what);

// OUT_OF_RANGE: an answer of at least `bytes` bytes, of which the server sends at most `limit`.
absl::Status AnswerTooLarge(int64_t bytes, int64_t limit);

// Whether the error is a fault of the server itself, which is for its log.
bool IsFaultOfTheServer(absl::StatusCode code);

// The error as the contract tells it, for a request of this type (null: of none that matters).
// INVALID_ARGUMENT gets a BadRequest that names the field (that of FieldError, else the message's
// first word when it is a field of `request`), RESOURCE_EXHAUSTED a RetryInfo. Faults of the server
// itself are told without their text, which may name files, unless the engine says that it is for
// clients (kPublicErrorPayload). Texts are always valid UTF-8.
google::rpc::Status ToRpcStatus(const absl::Status& status,
                                const google::protobuf::Descriptor* request = nullptr);
grpc::Status ToGrpcStatus(const google::rpc::Status& status);
grpc::Status ToGrpcStatus(const absl::Status& status,
                          const google::protobuf::Message* request = nullptr);

}  // namespace beamline
