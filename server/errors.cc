#include "server/errors.h"

#include <chrono>

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
// Status and details travel in headers, of which clients take 8 KiB and else lose the error.
constexpr size_t kMaxMessageBytes = 1000;

bool IsFaultOfTheServer(absl::StatusCode code) {
  return code == absl::StatusCode::kInternal || code == absl::StatusCode::kUnknown ||
         code == absl::StatusCode::kDataLoss;
}

// Messages of the engine begin with the field's path: "limits.max_new_tokens is 0; accepted: ...".
std::string FieldOf(const absl::Status& status, const google::protobuf::Message* request) {
  if (const auto payload = status.GetPayload(kFieldPayload)) return std::string(*payload);
  if (request == nullptr) return "";
  const std::string text(status.message());
  const std::string path =
      text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.[]"));
  const std::string name = path.substr(0, path.find_first_of(".["));
  const auto* descriptor = request->GetDescriptor();
  const bool known =
      descriptor->FindFieldByName(name) != nullptr || descriptor->FindOneofByName(name) != nullptr;
  return known ? path : "";
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

grpc::Status ToGrpcStatus(const absl::Status& status, const google::protobuf::Message* request) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(Shorten(std::string(status.message())));
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
