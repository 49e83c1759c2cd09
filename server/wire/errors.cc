#include "server/wire/errors.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "base/field_error.h"
#include "base/text.h"
#include "engine/api/engine.h"
#include "fmt/format.h"
#include "google/protobuf/wire_format_lite.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/error_details.h"
#include "server/wire/request.h"

namespace beamline {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr std::chrono::milliseconds kRetryDelay{200};
// Status and details travel in headers. Clients accept 8 KiB of them, and lose the error otherwise.
constexpr size_t kMaxMessageBytes = 1000;

// The engine's delay, if the status has one.
std::chrono::milliseconds RetryDelay(const absl::Status& status) {
  int64_t delay_ms = 0;
  const auto known = status.GetPayload(kRetryAfterPayload);
  if (known.has_value() && absl::SimpleAtoi(std::string(*known), &delay_ms)) {
    return std::chrono::milliseconds(delay_ms);
  }
  return kRetryDelay;
}

bool HasRetryDelay(const absl::Status& status) {
  return (status.code() == absl::StatusCode::kResourceExhausted &&
          !status.GetPayload(kNotSoonPayload).has_value()) ||
         status.GetPayload(kReplicaEndedPayload).has_value();
}

google::protobuf::Duration ToDuration(std::chrono::milliseconds delay) {
  google::protobuf::Duration duration;
  duration.set_seconds(delay / std::chrono::seconds(1));
  duration.set_nanos(
      static_cast<int32_t>(std::chrono::nanoseconds(delay % std::chrono::seconds(1)).count()));
  return duration;
}

// Serializes fields one after the other. Field numbers are below 16.
class WireBytes {
 public:
  explicit WireBytes(size_t expected_bytes) { bytes_.reserve(expected_bytes); }
  // Leaves out 0, as proto3 does.
  void AddNumber(int field, uint64_t value) {
    if (value == 0) return;
    Add(field, WireFormatLite::WIRETYPE_VARINT);
    AddVarint(value);
  }
  void AddBytes(int field, std::string_view bytes) {
    Add(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    AddVarint(bytes.size());
    bytes_.append(bytes);
  }
  const std::string& bytes() const { return bytes_; }
  std::string Take() && { return std::move(bytes_); }

 private:
  void Add(int field, WireFormatLite::WireType type) {
    bytes_.push_back(static_cast<char>(WireFormatLite::MakeTag(field, type)));
  }
  void AddVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

// Serializes what ToRpcStatus makes of a RESOURCE_EXHAUSTED that passes. An overloaded server
// refuses thousands of calls. Protobuf's message objects for these few fields would take a tenth of
// the server's own time for each.
std::string RefusalBytes(const absl::Status& status, std::string_view message) {
  using google::rpc::RetryInfo;
  constexpr size_t kUsualBytes = 96;  // without the message
  const google::protobuf::Duration delay = ToDuration(RetryDelay(status));
  WireBytes duration(/*expected_bytes=*/0);
  duration.AddNumber(google::protobuf::Duration::kSecondsFieldNumber,
                     static_cast<uint64_t>(delay.seconds()));
  duration.AddNumber(google::protobuf::Duration::kNanosFieldNumber,
                     static_cast<uint64_t>(delay.nanos()));
  WireBytes retry(/*expected_bytes=*/0);
  retry.AddBytes(RetryInfo::kRetryDelayFieldNumber, duration.bytes());
  WireBytes detail(kUsualBytes);
  detail.AddBytes(google::protobuf::Any::kTypeUrlFieldNumber,
                  "type.googleapis.com/google.rpc.RetryInfo");
  detail.AddBytes(google::protobuf::Any::kValueFieldNumber, retry.bytes());
  WireBytes all(kUsualBytes + message.size());
  all.AddNumber(google::rpc::Status::kCodeFieldNumber, static_cast<uint64_t>(status.code()));
  if (!message.empty()) all.AddBytes(google::rpc::Status::kMessageFieldNumber, message);
  all.AddBytes(google::rpc::Status::kDetailsFieldNumber, detail.bytes());
  return std::move(all).Take();
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
  } else if (HasRetryDelay(status)) {
    google::rpc::RetryInfo retry;
    *retry.mutable_retry_delay() = ToDuration(RetryDelay(status));
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
  if (status.code() == absl::StatusCode::kResourceExhausted && HasRetryDelay(status)) {
    const std::string message =
        Shorten({status.message().data(), status.message().size()}, kMaxMessageBytes);
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, message, RefusalBytes(status, message)};
  }
  return ToGrpcStatus(ToRpcStatus(status));
}

}  // namespace beamline
