#include "server/calls/call_state.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "server/errors.h"
#include "server/request_log.h"
#include "server/wire.h"

namespace beamline {

absl::StatusOr<std::string> Enter(ServiceContext& services,
                                  const grpc::CallbackServerContext& context, Right right) {
  if (services.gate == nullptr) return std::string();
  absl::StatusOr<std::string> name = services.gate->Enter(context, right);
  if (!name.ok()) {
    services.metrics.RecordRejection(absl::IsUnauthenticated(name.status())
                                         ? Rejection::kUnauthenticated
                                         : Rejection::kPermissionDenied);
  }
  return name;
}

absl::Status CallState::Parse(const grpc::ByteBuffer& buffer, google::protobuf::Message& message) {
  const absl::Status parsed = ParseMessage(buffer, message);
  // The first of these fields that the request has.
  const auto text = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names) {
      const auto* field = message.GetDescriptor()->FindFieldByName(name);
      if (field == nullptr) continue;
      return parsed.ok() ? message.GetReflection()->GetString(message, field)
                         : FindText(buffer, *message.GetDescriptor(), name);
    }
    return "";
  };
  record_.request_id = text({"request_id", "id"});
  const auto named = services_.models.Find(text({"model", "model_name", "name"}));
  if (named != nullptr) SetModel(named->name);
  return parsed;
}

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
  if (refusal.GetPayload(kRefusalPayload).has_value()) return;  // counted by Fail
  if (absl::IsResourceExhausted(refusal)) {
    services_.metrics.RecordRejection(Rejection::kQueueFull);
  } else if (absl::IsUnavailable(refusal)) {
    const bool not_ready = refusal.GetPayload(kModelNotReadyPayload).has_value();
    services_.metrics.RecordRejection(services_.admission.draining() ? Rejection::kDraining
                                      : not_ready                    ? Rejection::kNotReady
                                                                     : Rejection::kDeviceFault);
  }
}

google::rpc::Status CallState::Fail(const absl::Status& status) {
  // Some refusals wait until a request's tokens are counted, and come as its answer.
  if (const auto reason = status.GetPayload(kRefusalPayload); reason.has_value()) {
    services_.metrics.RecordRejection(
        std::string(*reason) == kRefusedByTokens ? Rejection::kQueuedTokens : Rejection::kDeadline);
  }
  if (IsFaultOfTheServer(status.code())) record_.fault = std::string(status.message());
  google::rpc::Status error = ToRpcStatus(status);
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
