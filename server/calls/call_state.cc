#include "server/calls/call_state.h"

#include <utility>

#include "server/errors.h"
#include "server/request_log.h"

namespace beamline {

absl::Status CallState::Admit() {
  absl::StatusOr<Admission::Permit> permit = services_.admission.Admit();
  if (!permit.ok()) {
    services_.metrics.RecordRejection(absl::IsUnavailable(permit.status()) ? Rejection::kDraining
                                                                           : Rejection::kOverload);
    return permit.status();
  }
  permit_.emplace(*std::move(permit));
  return absl::OkStatus();
}

void CallState::RecordRefusal(const absl::Status& refusal) {
  if (absl::IsResourceExhausted(refusal)) {
    services_.metrics.RecordRejection(Rejection::kQueueFull);
  } else if (absl::IsUnavailable(refusal)) {
    services_.metrics.RecordRejection(services_.admission.draining() ? Rejection::kDraining
                                                                     : Rejection::kDeviceFault);
  }
}

google::rpc::Status CallState::Fail(const absl::Status& status,
                                    const google::protobuf::Descriptor* request) {
  if (IsFaultOfTheServer(status.code())) record_.fault = std::string(status.message());
  google::rpc::Status error = ToRpcStatus(status, request);
  record_.code = static_cast<absl::StatusCode>(error.code());
  return error;
}

void CallState::Done() {
  permit_.reset();
  record_.duration = Clock::now() - start_;
  // gRPC did not send what was ready, so nobody was answered.
  if (unsent_ && record_.code == absl::StatusCode::kOk) {
    record_.code = absl::StatusCode::kCancelled;
  }
  services_.metrics.RecordCall(record_);
  LogRequest(record_);
}

}  // namespace beamline
