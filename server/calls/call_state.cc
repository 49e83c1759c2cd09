#include "server/calls/call_state.h"

#include <initializer_list>
#include <string>
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
    const auto& type = *message.GetDescriptor();
    DescribeBy(type, [&](const char* field) { return FindText(buffer, type, field); });
  }
  return parsed;
}

void CallState::Describe(const google::protobuf::Message& message) {
  const auto& type = *message.GetDescriptor();
  DescribeBy(type, [&](const char* field) {
    return message.GetReflection()->GetString(message, type.FindFieldByName(field));
  });
}

void CallState::DescribeBy(const google::protobuf::Descriptor& type,
                           const std::function<std::string(const char* field)>& text) {
  // The first of these fields that the request has.
  const auto first = [&](std::initializer_list<const char*> names) -> std::string {
    for (const char* name : names) {
      const auto* field = type.FindFieldByName(name);
      const bool is_text = field != nullptr && !field->is_repeated() &&
                           field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING;
      if (is_text) return text(name);
    }
    return "";
  };
  record_.request_id = first({"request_id", "id"});
  const auto named = services_.models.Find(first({"model", "model_name", "name"}));
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
