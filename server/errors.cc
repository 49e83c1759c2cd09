#include "server/errors.h"

#include <chrono>
#include <optional>
#include <vector>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/error_details.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

constexpr char kFieldPayload[] = "beamline.field";
constexpr std::chrono::milliseconds kRetryDelay{200};

bool IsFaultOfTheServer(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

// The path of the field called `name` in the message or its set submessages, breadth first.
std::optional<std::string> FindField(const google::protobuf::Message& message,
                                     const std::string& name) {
  const auto* descriptor = message.GetDescriptor();
  if (descriptor->FindFieldByName(name) != nullptr) return name;
  std::vector<const google::protobuf::FieldDescriptor*> set_fields;
  message.GetReflection()->ListFields(message, &set_fields);
  for (const auto* field : set_fields) {
    if (field->is_repeated() || field->message_type() == nullptr) continue;
    const auto path = FindField(message.GetReflection()->GetMessage(message, field), name);
    if (path.has_value()) return field->name() + "." + *path;
  }
  return std::nullopt;
}

// Messages of the engine begin with the field's name: "limits.max_new_tokens is 0; accepted: ...".
std::string FieldOf(const absl::Status& status, const google::protobuf::Message* request) {
  if (const auto payload = status.GetPayload(kFieldPayload)) return std::string(*payload);
  if (request == nullptr) return "";
  const std::string text(status.message());
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[]");
  const std::string word = text.substr(0, end);
  // "limits.stop[2]": the path is the engine's; "stop[2]" is completed by where "stop" is.
  const size_t name_end = word.find_first_of(".[");
  const std::string name = word.substr(0, name_end);
  if (name.empty()) return "";
  const auto path = FindField(*request, name);
  if (!path.has_value()) return "";
  return name_end == std::string::npos ? *path : *path + word.substr(name_end);
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

grpc::Status ToGrpcStatus(const absl::Status& status, const google::protobuf::Message* request) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(std::string(status.message()));
  if (IsFaultOfTheServer(status.code())) {
    spdlog::error("a request failed: {}", status.ToString());
    details.set_code(static_cast<int>(absl::StatusCode::kInternal));
    details.set_message("internal error; the server's log has the reason");
  } else if (status.code() == absl::StatusCode::kInvalidArgument) {
    const std::string field = FieldOf(status, request);
    if (!field.empty()) {
      google::rpc::BadRequest bad_request;
      auto* violation = bad_request.add_field_violations();
      violation->set_field(field);
      violation->set_description(details.message());
      details.add_details()->PackFrom(bad_request);
    }
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(std::chrono::nanoseconds(kRetryDelay).count()));
    details.add_details()->PackFrom(retry);
  }
  grpc::Status result;
  grpc::SetErrorDetails(details, &result);
  return result;
}

}  // namespace beamline
