#include "client/grpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "client/channel.h"

namespace beamline {

absl::Status ToStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  std::string message = status.error_message();
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) message += ConnectionHint(message);
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), message);
  if (!status.error_details().empty()) {
    result.SetPayload(kDetailsPayload, absl::Cord(status.error_details()));
  }
  return result;
}

absl::Status ToStatus(const google::rpc::Status& error) {
  absl::Status status(static_cast<absl::StatusCode>(error.code()), error.message());
  status.SetPayload(kDetailsPayload, absl::Cord(error.SerializeAsString()));
  return status;
}

google::rpc::Status GetDetails(const absl::Status& status) {
  google::rpc::Status details;
  const auto payload = status.GetPayload(kDetailsPayload);
  if (payload.has_value() && !details.ParseFromString(std::string(*payload))) details.Clear();
  return details;
}

}  // namespace beamline
