#include "server/calls/call_state.h"

#include <utility>

#include "absl/strings/cord.h"
#include "server/errors.h"
#include "server/wire.h"

namespace beamline {

absl::StatusOr<std::string> Enter(ServiceContext& services,
                                  const grpc::CallbackServerContext& context, Right right) {
  if (services.gate == nullptr) return std::string();
  return Enter(services, ShownIn(context), right);
}

absl::StatusOr<std::string> Enter(ServiceContext& services, const Shown& shown, Right right) {
  if (services.gate == nullptr) return std::string();
  absl::StatusOr<std::string> name = services.gate->Enter(shown, right);
  if (!name.ok()) {
    services.metrics.RecordRejection(absl::IsUnauthenticated(name.status())
                                         ? Rejection::kUnauthenticated
                                         : Rejection::kPermissionDenied);
  }
  return name;
}

void CallState::SetCaller(const Caller& caller) {
  record_.client = caller.client;
  record_.is_identity = caller.is_identity;
  record_.peer = caller.peer;
  record_.trace = caller.trace;
}

absl::Status CallState::Parse(const grpc::ByteBuffer& buffer, google::protobuf::Message& message) {
  SetRequestBytes(buffer.Length());
  const absl::Status parsed = ParseMessage(buffer, message);
  if (parsed.ok()) {
    Describe(message);
  } else {
    DescribeBy(
        [&](const char* field) { return FindText(buffer, *message.GetDescriptor(), field); });
  }
  return parsed;
}

void CallState::Describe(const google::protobuf::Message& message) {
  DescribeBy([&](const char* name) -> std::string {
    const auto* field = message.GetDescriptor()->FindFieldByName(name);
    return field == nullptr ? "" : message.GetReflection()->GetString(message, field);
  });
}

void CallState::DescribeBy(const std::function<std::string(const char* field)>& text) {
  record_.request_id = text("request_id");
  const bool is_about_model = record_.rpc == Rpc::kGetModel || record_.rpc == Rpc::kLoadModel ||
                              record_.rpc == Rpc::kUnloadModel ||
                              record_.rpc == Rpc::kRestartReplica;
  const auto named = services_.models.Find(text(is_about_model ? "name" : "model"));
  if (named != nullptr) SetModel(named->name);
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
  LogRequest(record_, services_.request_log);
  if (services_.spans != nullptr) services_.spans->Add(record_);
}

}  // namespace beamline
