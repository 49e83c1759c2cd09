// The reactor of a unary call. It lives until gRPC calls OnDone, which comes only after Reply or
// Fail, and after the service's method has returned it.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "base/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/call_state.h"
#include "server/wire/errors.h"
#include "server/wire/wire.h"

namespace beamline {

class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(ServiceContext& services, Rpc rpc, grpc::ByteBuffer* response)
      : state_(services, rpc), response_(response) {}

  // For the log; before the call starts.
  void SetCaller(const Caller& caller) { state_.SetCaller(caller); }

  // gRPC also calls it when it could not send the answer.
  void OnCancel() override { state_.SetUnsent(); }
  void OnDone() override {
    state_.Done();
    delete this;
  }

 protected:
  ~UnaryCall() override = default;

  CallState& state() { return state_; }
  ServiceContext& services() { return state_.services(); }

  // Call one of Reply and Fail, once. The call must not be used afterwards.
  void Reply(const google::protobuf::Message& message) {
    const size_t size = message.ByteSizeLong();
    const absl::Status checked = CheckSize(static_cast<int64_t>(size));
    if (!checked.ok()) return Fail(checked);
    grpc::ByteBuffer serialized = SerializeMessage(message, size);
    response_->Swap(&serialized);  // an assignment would copy
    Finish(grpc::Status::OK);
  }
  // The same with a serialized message.
  void Reply(const grpc::ByteBuffer& message) {
    const absl::Status checked = CheckSize(static_cast<int64_t>(message.Length()));
    if (!checked.ok()) return Fail(checked);
    *response_ = message;
    Finish(grpc::Status::OK);
  }
  void Fail(const absl::Status& status) { Finish(state_.FailCall(status)); }

 private:
  // OnDone and OnCancel are brief and wait for nothing, so gRPC may run them where it learns of the
  // end. By default it wakes a thread of its executor for each call. There is no public option, so
  // this is no `override`: a gRPC without it ignores it, and answers are the same.
  bool InternalInlineable() { return true; }  // NOLINT: overrides where gRPC has it

  // OK if an answer of `bytes` may be sent. Counts it and frees the call's slot then.
  absl::Status CheckSize(int64_t bytes) {
    const int64_t limit = services().stream_limits.max_send_bytes;
    if (bytes > limit) return AnswerTooLarge(bytes, limit);
    BEAMLINE_RETURN_IF_ERROR(state_.Hold("answer", bytes));
    state_.AddAnswerBytes(bytes);
    state_.EndIfUnread();
    state_.GivePlacesUnlessUnread();
    return absl::OkStatus();
  }

  CallState state_;
  grpc::ByteBuffer* response_;
};

}  // namespace beamline
