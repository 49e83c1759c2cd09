#include "server/http/embedding_call.h"

#include <utility>

#include "base/status.h"
#include "server/http/http_call.h"
#include "server/http/openai_answer.h"
#include "server/wire/errors.h"

namespace beamline {

// The engine owns it. It holds the call until OnFinish.
class EmbeddingCall::Sink final : public EncodeSink {
 public:
  explicit Sink(std::shared_ptr<EmbeddingCall> call) : call_(std::move(call)) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    const bool brief = !result.ok() || EncodeMethod::IsBrief(*result);
    WorkerPool& writers = call_->services_.writers;
    auto complete = [call = std::move(call_), result = std::move(result)] {
      call->Complete(result);
    };
    brief ? writers.PostBrief(std::move(complete)) : writers.Post(std::move(complete));
  }

 private:
  std::shared_ptr<EmbeddingCall> call_;
};

void EmbeddingCall::Start() {
  state_.SetRequestId(exchange_->request().request_id);
  state_.SetRequestBytes(exchange_->request().body.size());
  exchange_->OnGone([weak = weak_from_this()] {
    if (const auto call = weak.lock(); call != nullptr) call->Cancel();
  });
  if (const absl::Status status = Begin(); !status.ok()) return Fail(status);
  if (exchange_->request().body.size() <= kLargeBodyBytes) return Run();
  services_.text_workers.Post([self = shared_from_this()] { self->Run(); });
}

absl::Status EmbeddingCall::Begin() {
  BEAMLINE_RETURN_IF_ERROR(state_.Admit());
  BEAMLINE_ASSIGN_OR_RETURN(caller_, CallerOf(exchange_->request()));
  state_.SetCaller(caller_);
  return absl::OkStatus();
}

void EmbeddingCall::Run() {
  if (const absl::Status status = Submit(); !status.ok()) Fail(status);
}

absl::Status EmbeddingCall::Submit() {
  BEAMLINE_ASSIGN_OR_RETURN(request_, ParseEmbedding(exchange_->request().body));
  v1::EncodeRequest& message = request_.request;
  message.set_request_id(exchange_->request().request_id);
  state_.Describe(message);
  auto handle = EncodeMethod::Submit(state_, message, caller_,
                                     std::make_shared<Sink>(shared_from_this()), answer_);
  if (!handle.ok()) return WithUnknownModel(services_, message.model(), handle.status());
  std::lock_guard lock(mutex_);
  handle_ = *std::move(handle);
  if (cancelled_) handle_->Cancel();
  return absl::OkStatus();
}

void EmbeddingCall::Cancel() {
  state_.SetUnsent();
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (handle_ != nullptr) handle_->Cancel();
}

void EmbeddingCall::Complete(const absl::StatusOr<EncodeResult>& result) {
  if (!result.ok()) return Fail(result.status());
  const auto response = EncodeMethod::Answer(state_, *result, answer_);
  if (!response.ok()) return Fail(response.status());
  HttpAnswer answer{.body = EmbeddingJson(*response, request_.base64)};
  const auto bytes = static_cast<int64_t>(answer.body.size());
  const int64_t most = services_.stream_limits.max_send_bytes;
  if (bytes > most) return Fail(AnswerTooLarge(bytes, most));
  Send(std::move(answer));
}

void EmbeddingCall::Fail(const absl::Status& status) {
  Send(ErrorAnswer(state_.Fail(InOpenAiField(status, request_.names))));
}

void EmbeddingCall::Send(HttpAnswer answer) {
  const auto bytes = static_cast<int64_t>(answer.body.size());
  state_.AddAnswerBytes(bytes);
  state_.GivePlacesBefore(bytes);
  exchange_->Answer(std::move(answer), [self = shared_from_this()](bool sent) {
    if (!sent) self->state_.SetUnsent();
  });
}

}  // namespace beamline
