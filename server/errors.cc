#include "server/errors.h"

#include <chrono>
#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "base/field_error.h"
#include "base/text.h"
#include "engine/api/engine.h"
#include "fmt/format.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/error_details.h"
#include "server/conversion/request.h"

namespace beamline {
namespace {

constexpr std::chrono::milliseconds kRetryDelay{200};
// Status and details travel in headers, of which clients take 8 KiB and else lose the error.
constexpr size_t kMaxMessageBytes = 1000;

// As the engine says, where it knows.
std::chrono::milliseconds RetryDelay(const absl::Status& status) {
  int64_t delay_ms = 0;
  const auto known = status.GetPayload(kRetryAfterPayload);
  if (known.has_value() && absl::SimpleAtoi(std::string(*known), &delay_ms)) {
    return std::chrono::milliseconds(delay_ms);
  }
  return kRetryDelay;
}

}  // namespace

absl::Status AnswerTooLarge(int64_t bytes, int64_t limit) {
  return absl::OutOfRangeError(
      fmt::format("the answer has at least {} bytes; accepted: at most {}", bytes, limit));
}

bool IsFaultOfTheServer(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  std::string message(status.message());
  if (IsFaultOfTheServer(status.code())) {
    details.set_code(static_cast<int>(absl::StatusCode::kInternal));
    if (!status.GetPayload(kPublicErrorPayload).has_value()) {
      message = "internal error; the server's log has the reason";
    }
  } else if (status.code() == absl::StatusCode::kInvalidArgument) {
    if (std::optional<FieldFault> fault = GetFieldFault(status)) {
      fault->field = std::string(ContractPath(fault->field));
      message = FieldMessage(*fault);
      google::rpc::BadRequest bad_request;
      auto* violation = bad_request.add_field_violations();
      violation->set_field(Shorten(fault->field, kMaxMessageBytes));
      violation->set_description(Shorten(message, kMaxMessageBytes));
      details.add_details()->PackFrom(bad_request);
    }
  } else if ((status.code() == absl::StatusCode::kResourceExhausted &&
              !status.GetPayload(kNotSoonPayload).has_value()) ||
             status.GetPayload(kReplicaEndedPayload).has_value()) {
    google::rpc::RetryInfo retry;
    const std::chrono::milliseconds delay = RetryDelay(status);
    retry.mutable_retry_delay()->set_seconds(delay / std::chrono::seconds(1));
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(std::chrono::nanoseconds(delay % std::chrono::seconds(1)).count()));
    details.add_details()->PackFrom(retry);
  }
  details.set_message(Shorten(message, kMaxMessageBytes));
  return details;
}

grpc::Status ToGrpcStatus(const google::rpc::Status& status) {
  grpc::Status result;
  grpc::SetErrorDetails(status, &result);
  return result;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return ToGrpcStatus(ToRpcStatus(status));
}

}  // namespace beamline
