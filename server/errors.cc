#include "server/errors.h"

#include <chrono>

#include "absl/strings/cord.h"
#include "base/text.h"
#include "engine/api/engine.h"
#include "fmt/format.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/error_details.h"

namespace beamline {
namespace {

constexpr char kFieldPayload[] = "beamline.field";
constexpr std::chrono::milliseconds kRetryDelay{200};
// Status and details travel in headers, of which clients take 8 KiB and else lose the error.
constexpr size_t kMaxMessageBytes = 1000;

// The field that an engine's message is about. It begins with the path in the engine's structs, of
// which the contract has all but the names of its oneofs: "decoding.sampling.top_p is 3; ..." loses
// "decoding." here.
std::string TakeField(const google::protobuf::Descriptor& request, std::string& message) {
  const auto path_of = [&message] {
    return message.substr(0, message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[]"));
  };
  const auto first_name = [](const std::string& path) {
    return path.substr(0, path.find_first_of(".["));
  };
  std::string path = path_of();
  const std::string name = first_name(path);
  if (request.FindOneofByName(name) != nullptr) {
    if (path == name) return path;
    message.erase(0, name.size() + 1);
    path = path_of();
  }
  return request.FindFieldByName(first_name(path)) != nullptr ? path : "";
}

}  // namespace

absl::Status FieldError(std::string_view field, std::string_view problem) {
  absl::Status status = absl::InvalidArgumentError(fmt::format("{} {}", field, problem));
  status.SetPayload(kFieldPayload, absl::Cord(std::string(field)));
  return status;
}

absl::Status NotImplemented(std::string_view what) {
  return absl::UnimplementedError(fmt::format("{} is not implemented by this server", what));
}

absl::Status AnswerTooLarge(int64_t bytes, int64_t limit) {
  return absl::OutOfRangeError(
      fmt::format("the answer has at least {} bytes; accepted: at most {}", bytes, limit));
}

bool IsFaultOfTheServer(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

google::rpc::Status ToRpcStatus(const absl::Status& status,
                                const google::protobuf::Descriptor* request) {
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  std::string message(status.message());
  if (IsFaultOfTheServer(status.code())) {
    details.set_code(static_cast<int>(absl::StatusCode::kInternal));
    if (!status.GetPayload(kPublicErrorPayload).has_value()) {
      message = "internal error; the server's log has the reason";
    }
  } else if (status.code() == absl::StatusCode::kInvalidArgument) {
    std::string field;
    if (const auto payload = status.GetPayload(kFieldPayload)) {
      field = std::string(*payload);
    } else if (request != nullptr) {
      field = TakeField(*request, message);
    }
    if (!field.empty()) {
      google::rpc::BadRequest bad_request;
      auto* violation = bad_request.add_field_violations();
      violation->set_field(Shorten(field, kMaxMessageBytes));
      violation->set_description(Shorten(message, kMaxMessageBytes));
      details.add_details()->PackFrom(bad_request);
    }
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(std::chrono::nanoseconds(kRetryDelay).count()));
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

grpc::Status ToGrpcStatus(const absl::Status& status, const google::protobuf::Message* request) {
  if (status.ok()) return grpc::Status::OK;
  return ToGrpcStatus(ToRpcStatus(status, request == nullptr ? nullptr : request->GetDescriptor()));
}

}  // namespace beamline
