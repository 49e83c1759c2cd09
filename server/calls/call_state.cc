#include "server/calls/call_state.h"

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/cord.h"
#include "base/status.h"
#include "fmt/format.h"
#include "server/guard/answered_calls.h"
#include "server/security/metadata_limits.h"
#include "server/wire/by_type.h"
#include "server/wire/errors.h"
#include "server/wire/wire.h"

namespace beamline {
namespace {

using google::protobuf::FieldDescriptor;

void Describe(const Caller& caller, CallRecord& record) {
  record.client = caller.client;
  record.is_identity = caller.is_identity;
  record.peer = caller.peer;
  record.trace = caller.trace;
}

// The rejection for a request limit, by the engine's name of it.
Rejection RejectionOf(std::string_view reason) {
  if (reason == kRefusedByTokens) return Rejection::kQueuedTokens;
  return reason == kRefusedByQuota ? Rejection::kQuota : Rejection::kDeadline;
}

// The first of these fields that the type has as a string field, else null.
const FieldDescriptor* FirstText(const google::protobuf::Descriptor& type,
                                 std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const FieldDescriptor* field = type.FindFieldByName(name);
    const bool is_text = field != nullptr && !field->is_repeated() &&
                         field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    if (is_text) return field;
  }
  return nullptr;
}

// The fields of a request type that hold its id and its model.
struct NamingFields {
  explicit NamingFields(const google::protobuf::Descriptor& type)
      : request_id(FirstText(type, {"request_id", "id"})),
        model(FirstText(type, {"model", "model_name", "name"})) {}
  const FieldDescriptor* request_id;
  const FieldDescriptor* model;
};

}  // namespace

std::shared_ptr<TokenCharge> OpenCharge(const ServiceContext& services, const Caller& caller) {
  if (services.quotas == nullptr) return nullptr;
  return services.quotas->Open(caller.client, caller.is_identity);
}

absl::StatusOr<std::string> Enter(ServiceContext& services, Rpc rpc,
                                  const grpc::CallbackServerContext& context, Right right) {
  absl::StatusOr<std::string> name = Enter(services, ShownIn(context), right);
  if (!name.ok()) LogRefusal(services, rpc, CallerOf(context, ""), name.status());
  return name;
}

void LogRefusal(const ServiceContext& services, Rpc rpc, const Caller& caller,
                const absl::Status& refusal) {
  // Logged as an error, it would let any client without a token fill the log.
  if (!services.request_log.all) return;
  CallRecord record;
  record.rpc = rpc;
  record.code = refusal.code();
  Describe(caller, record);
  LogRequest(record, services.request_log);
}

absl::Status EnterAgain(ServiceContext& services, const Caller& caller, Right right) {
  if (services.gate == nullptr || caller.context == nullptr) return absl::OkStatus();
  return Enter(services, ShownIn(*caller.context), right).status();
}

absl::StatusOr<std::string> Enter(ServiceContext& services, const Shown& shown, Right right) {
  if (shown.context != nullptr) BEAMLINE_RETURN_IF_ERROR(CheckMetadata(*shown.context));
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
  beamline::Describe(caller, record_);
  context_ = caller.context;
}

void CallState::TakeCaller(Caller& caller) {
  context_ = caller.context;
  record_.client = caller.client;
  record_.is_identity = caller.is_identity;
  record_.peer = std::move(caller.peer);
  record_.trace = std::move(caller.trace);
}

absl::Status CallState::Parse(const grpc::ByteBuffer& buffer, google::protobuf::Message& message) {
  const absl::Status parsed = ParseOnly(buffer, message);
  if (parsed.ok()) Describe(message);
  return parsed;
}

absl::Status CallState::ParseOnly(const grpc::ByteBuffer& buffer,
                                  google::protobuf::Message& message) {
  SetRequestBytes(buffer.Length());
  const absl::Status parsed = ParseMessage(buffer, message);
  if (!parsed.ok()) {
    const auto& type = *message.GetDescriptor();
    DescribeBy(type,
               [&](const FieldDescriptor& field) { return FindText(buffer, type, field.name()); });
  }
  return parsed;
}

void CallState::Describe(const google::protobuf::Message& message) {
  DescribeBy(*message.GetDescriptor(), [&](const FieldDescriptor& field) {
    return message.GetReflection()->GetString(message, &field);
  });
}

void CallState::DescribeBy(const google::protobuf::Descriptor& type,
                           absl::FunctionRef<std::string(const FieldDescriptor&)> text) {
  const auto& [request_id, model] = ByType<NamingFields>(type);
  if (request_id != nullptr) record_.request_id = text(*request_id);
  const auto named = services_.models.Find(model != nullptr ? text(*model) : std::string());
  if (named != nullptr) SetModel(named->name);
}

absl::Status CallState::Admit(int32_t num_places) {
  absl::StatusOr<Admission::Permit> permit = services_.admission.Admit(record_.client, num_places);
  if (!permit.ok()) {
    services_.metrics.RecordRejection(absl::IsUnavailable(permit.status()) ? Rejection::kDraining
                                                                           : Rejection::kOverload);
    return permit.status();
  }
  permit_.emplace(*std::move(permit));
  return absl::OkStatus();
}

absl::Status CallState::Admit(const grpc::ByteBuffer& request) {
  has_request_ = request.Valid();
  if (has_request_) return Admit();
  return absl::InvalidArgumentError("the call ended without a request");
}

absl::Status CallState::Hold(std::string_view what, int64_t bytes) {
  UnreadAnswers* const unread = services_.unread;
  if (unread == nullptr) return absl::OkStatus();
  // Bytes that the call holds already do not count against it.
  const int64_t all = std::exchange(held_bytes_, 0) + bytes;
  unread->Give(all - bytes, record_.client);
  switch (unread->Take(all, record_.client)) {
    case UnreadAnswers::Refusal::kNone:
      break;
    case UnreadAnswers::Refusal::kAll:
      return absl::ResourceExhaustedError(fmt::format(
          "the {} takes {} bytes, and calls whose answers are not read yet take {}; accepted: at "
          "most {} together, of which the last {} are for clients that have few",
          what, bytes, unread->bytes(), unread->limit(), SharedLimit::Reserve(unread->limit())));
    case UnreadAnswers::Refusal::kClient:
      return absl::ResourceExhaustedError(
          fmt::format("the {} takes {} bytes, and the client's answers that it has not read yet "
                      "take {}; accepted: at most {} of one client",
                      what, bytes, unread->bytes_of(record_.client), unread->limit() / 2));
  }
  held_bytes_ = all;
  return absl::OkStatus();
}

absl::StatusOr<AnswerRoom::PlacePtr> CallState::TakeRoom(int64_t bytes) {
  if (room_ == nullptr || bytes <= AnswerRoom::kSmallBytes) return nullptr;
  if (place_ == nullptr) place_ = room_->Take(record_.client, bytes);
  if (place_ != nullptr) return place_;
  wanted_bytes_ = bytes;
  return absl::CancelledError("the request is taken later");
}

void CallState::EndIfUnread() {
  if (services_.unread == nullptr || context_ == nullptr) return;
  if (held_bytes_ <= UnreadAnswers::kSmallBytes) return;
  services_.unread->Watch(this, held_bytes_, [context = context_] { context->TryCancel(); });
  is_watched_ = true;
}

void CallState::RecordRefusal(const absl::Status& refusal) {
  if (refusal.GetPayload(kRefusalPayload).has_value()) return;  // Fail counts it
  if (absl::IsResourceExhausted(refusal)) {
    services_.metrics.RecordRejection(Rejection::kQueueFull);
  } else if (absl::IsUnavailable(refusal)) {
    const bool not_ready = refusal.GetPayload(kModelNotReadyPayload).has_value();
    services_.metrics.RecordRejection(services_.admission.draining() ? Rejection::kDraining
                                      : not_ready                    ? Rejection::kNotReady
                                                                     : Rejection::kDeviceFault);
  }
}

void CallState::GivePlaces() {
  if (permit_.has_value()) permit_->GivePlaces();
}

bool CallState::GivePlacesUnlessUnread() {
  const UnreadAnswers* const unread = services_.unread;
  if (unread != nullptr && unread->bytes() - held_bytes_ > unread->limit()) return false;
  GivePlaces();
  return true;
}

bool CallState::GivePlacesBefore(int64_t answer_bytes) {
  return Hold("answer", answer_bytes).ok() && GivePlacesUnlessUnread();
}

google::rpc::Status CallState::Fail(const absl::Status& status) {
  RecordFailure(status);
  return ToRpcStatus(status);
}

grpc::Status CallState::FailCall(const absl::Status& status) {
  RecordFailure(status);
  return ToGrpcStatus(status);
}

void CallState::RecordFailure(const absl::Status& status) {
  // Before the client gets the error, so that its next call finds a free slot.
  GivePlaces();
  // Some refusals come as the request's answer, once its tokens are counted.
  if (const auto reason = status.GetPayload(kRefusalPayload); reason.has_value()) {
    services_.metrics.RecordRejection(RejectionOf(std::string(*reason)));
  }
  record_.code = status.code();
  if (IsFaultOfTheServer(status.code())) {
    record_.fault = std::string(status.message());
    record_.code = absl::StatusCode::kInternal;  // the code that the client gets
  }
}

void CallState::Done() {
  permit_.reset();
  place_.reset();
  if (is_watched_) services_.unread->Forget(this);
  if (held_bytes_ > 0) services_.unread->Give(held_bytes_, record_.client);
  record_.duration = Clock::now() - start_;
  // gRPC did not send the answer, or no request came: the call counts as cancelled.
  if (unsent_ && (record_.code == absl::StatusCode::kOk || !has_request_)) {
    record_.code = absl::StatusCode::kCancelled;
  }
  // Answers of gRPC's calls earn what their client may take back of others.
  if (context_ != nullptr && record_.code == absl::StatusCode::kOk) CountAnswered(record_.peer);
  services_.metrics.RecordCall(record_);
  LogRequest(record_, services_.request_log);
  if (services_.spans != nullptr) services_.spans->Add(record_);
}

}  // namespace beamline
