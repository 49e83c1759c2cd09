#include "server/errors.h"

#include <chrono>

#include "absl/strings/cord.h"
#include "engine/engine.h"
#include "fmt/format.h"
#include "google/rpc/error_details.pb.h"
#include "grpcpp/support/error_details.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

constexpr char kFieldPayload[] = "beamline.field";
constexpr std::chrono::milliseconds kRetryDelay{200};
// Status and details travel in headers, of which clients take 8 KiB and else lose the error.
constexpr size_t kMaxMessageBytes = 1000;

bool IsFaultOfTheServer(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

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

std::string Shorten(std::string_view message) {
  if (message.size() <= kMaxMessageBytes) return std::string(message);
  size_t end = kMaxMessageBytes;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  return std::string(message.substr(0, end)) + "...";
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

google::rpc::Status ToRpcStatus(const absl::Status& status,
                                const google::protobuf::Descriptor* request) {
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  std::string message(status.message());
  if (IsFaultOfTheServer(status.code())) {
    spdlog::error("a request failed: {}: {}", absl::StatusCodeToString(status.code()), message);
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
      violation->set_field(field);
      violation->set_description(Shorten(message));
      details.add_details()->PackFrom(bad_request);
    }
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(std::chrono::nanoseconds(kRetryDelay).count()));
    details.add_details()->PackFrom(retry);
  }
  details.set_message(Shorten(message));
  return details;
}

grpc::Status ToGrpcStatus(const absl::Status& status, const google::protobuf::Message* request) {
  if (status.ok()) return grpc::Status::OK;
  grpc::Status result;
  grpc::SetErrorDetails(
      ToRpcStatus(status, request == nullptr ? nullptr : request->GetDescriptor()), &result);
  return result;
}

}  // namespace beamline
