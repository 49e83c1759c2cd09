#include "server/calls/stream_call.h"

#include <utility>

#include "base/status.h"
#include "grpcpp/server_context.h"
#include "server/calls/methods.h"
#include "server/wire/errors.h"
#include "server/wire/wire.h"

namespace beamline {

// The engine owns it. It uses the call only until OnFinish.
class StreamCall::Sink final : public GenerateSink {
 public:
  explicit Sink(StreamCall& call) : call_(call) {}
  bool wants_deltas() const override { return true; }
  void OnDelta(GenerateDelta delta) override { call_.Push(std::move(delta)); }
  void OnFinish(absl::StatusOr<GenerateResult> result) override { call_.End(std::move(result)); }

 private:
  StreamCall& call_;
};

void StreamCall::Start(const grpc::CallbackServerContext& context, const std::string& identity,
                       const grpc::ByteBuffer& buffer) {
  const absl::Status status = Submit(context, identity, buffer);
  if (!status.ok()) Fail(status);
}

absl::Status StreamCall::Submit(const grpc::CallbackServerContext& context,
                                const std::string& identity, const grpc::ByteBuffer& buffer) {
  const Caller caller = CallerOf(context, identity);
  state_.SetCaller(caller);
  BEAMLINE_RETURN_IF_ERROR(state_.Admit(buffer));
  BEAMLINE_RETURN_IF_ERROR(state_.Parse(buffer, message_));
  BEAMLINE_ASSIGN_OR_RETURN(PreparedGenerate prepared, PrepareGenerate(state_, message_, caller));
  answer_ = std::move(prepared.answer);
  BEAMLINE_ASSIGN_OR_RETURN(auto handle,
                            state_.CountRefusal(state_.services().engine.Generate(
                                std::move(prepared.request), std::make_shared<Sink>(*this))));
  // OnCancel is not called before the service's method has returned, so it sees handle_. A writer
  // may have refused a message already.
  std::lock_guard lock(mutex_);
  handle_ = std::move(handle);
  if (!refused_.ok()) handle_->Cancel();
  return absl::OkStatus();
}

void StreamCall::Push(GenerateDelta delta) {
  std::lock_guard lock(mutex_);
  if (broken_) return;
  waiting_.Add(std::move(delta));
  WakeLocked();
}

void StreamCall::End(absl::StatusOr<GenerateResult> result) {
  std::lock_guard lock(mutex_);
  result_ = std::move(result);
  WakeLocked();
}

void StreamCall::WakeLocked() {
  if (busy_) return;
  busy_ = true;
  // A stream's first message goes before the next tokens of other streams: time to first token
  // counts most.
  const auto turn =
      std::exchange(begun_, true) ? WorkerPool::Turn::kLast : WorkerPool::Turn::kFirst;
  state_.services().writers.PostSend([this] { Advance(); }, turn);
}

void StreamCall::Advance() {
  std::vector<GenerateDelta> deltas;
  const absl::StatusOr<GenerateResult>* result = nullptr;
  absl::Status refused;
  {
    std::lock_guard lock(mutex_);
    if (!broken_) deltas = waiting_.Take();
    refused = refused_;
    const bool all_taken = broken_ || waiting_.empty();
    if (result_.has_value() && all_taken) result = &*result_;
    if (deltas.empty() && result == nullptr) {
      busy_ = false;
      return;
    }
  }
  if (result == nullptr) {
    Write(std::move(deltas), nullptr);
  } else if (!refused.ok()) {
    Fail(refused);
  } else if (result->ok()) {
    Write(std::move(deltas), &**result);
  } else {
    Fail(result->status());
  }
}

void StreamCall::Write(std::vector<GenerateDelta> deltas, const GenerateResult* end) {
  v1::GenerateStreamResponse message;
  for (GenerateDelta& delta : deltas) {
    *message.add_deltas() = ToMessage(std::move(delta), answer_);
  }
  if (end != nullptr) {
    state_.SetAnswer(end->timing, end->usage);
    *message.mutable_end() = ToStreamEnd(*end, answer_);
  }
  const int64_t limit = state_.services().stream_limits.max_send_bytes;
  if (end != nullptr && !message.deltas().empty() &&
      static_cast<int64_t>(message.ByteSizeLong()) > limit) {
    message.clear_end();  // it is sent alone, once these are written
    end = nullptr;
  }
  const auto bytes = static_cast<int64_t>(message.ByteSizeLong());
  if (bytes > limit) return Refuse(AnswerTooLarge(bytes, limit), end != nullptr);
  out_ = SerializeMessage(message);
  state_.AddAnswerBytes(bytes);
  if (end == nullptr) return StartWrite(&out_);
  if (bytes <= UnreadAnswers::kSmallBytes) state_.GivePlacesBefore(bytes);
  StartWriteAndFinish(&out_, grpc::WriteOptions(), grpc::Status::OK);
}

void StreamCall::Refuse(const absl::Status& status, bool is_last) {
  if (is_last) return Fail(status);
  {
    std::lock_guard lock(mutex_);
    refused_ = status;
    broken_ = true;
    if (handle_ != nullptr) handle_->Cancel();
  }
  Advance();  // the call must wait for the engine's result
}

void StreamCall::Fail(const absl::Status& status) { Finish(state_.FailCall(status)); }

void StreamCall::OnWriteDone(bool ok) {
  if (!ok) {
    {
      std::lock_guard lock(mutex_);
      broken_ = true;
    }
    OnCancel();
  }
  Advance();
}

void StreamCall::OnCancel() {
  state_.SetUnsent();
  if (handle_ != nullptr) handle_->Cancel();
}

void StreamCall::OnDone() {
  state_.Done();
  delete this;
}

}  // namespace beamline
