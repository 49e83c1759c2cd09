#include "server/protocols/kserve/infer_stream.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "server/wire/errors.h"
#include "server/wire/wire.h"

namespace beamline {
namespace {

constexpr char kFinalResponse[] = "triton_final_response";

void SetFinal(bool is_final, inference::ModelInferResponse& response) {
  (*response.mutable_parameters())[kFinalResponse].set_bool_param(is_final);
}

}  // namespace

struct InferStream::Item {
  explicit Item(ServiceContext& services)
      : state(std::make_unique<CallState>(services, Rpc::kModelStreamInfer)),
        waiting(static_cast<size_t>(services.stream_limits.max_send_bytes)) {}

  std::unique_ptr<CallState> state;
  InferAnswer answer;
  std::optional<absl::StatusOr<InferResult>> last;  // for one answer

  std::mutex mutex;                                      // guards all below
  DeltaBuffer waiting;                                   //
  std::optional<absl::StatusOr<GenerateResult>> result;  // for many answers
  bool busy = false;
  bool begun = false;    // guarded by mutex; the first writer task was posted
  absl::Status refused;  // a part was too large: the request ends with this error
};

// The engine owns both. They use the stream only until OnFinish.
class InferStream::DeltaSink final : public GenerateSink {
 public:
  DeltaSink(InferStream& stream, ItemPtr item) : stream_(stream), item_(std::move(item)) {}
  bool wants_deltas() const override { return true; }
  void OnDelta(GenerateDelta delta) override { stream_.Push(item_, std::move(delta)); }
  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    stream_.End(item_, std::move(result));
  }

 private:
  InferStream& stream_;
  const ItemPtr item_;
};

class InferStream::LastSink final : public InferSink {
 public:
  LastSink(InferStream& stream, ItemPtr item) : stream_(stream), item_(std::move(item)) {}
  void OnFinish(absl::StatusOr<InferResult> result) override {
    item_->last = std::move(result);
    stream_.services().writers.Post(
        [stream = &stream_, item = item_] { stream->Complete(item, *item->last); });
  }

 private:
  InferStream& stream_;
  const ItemPtr item_;
};

void InferStream::Take(const grpc::ByteBuffer& buffer) {
  const auto item = std::make_shared<Item>(services());
  item->state->SetCaller(caller_);
  UseRoom(*item->state);
  running_.Add(item.get());
  const absl::Status status = Submit(item, buffer);
  if (status.ok()) return;
  if (IsTakenLater(*item->state)) return running_.Remove(item.get());
  Fail(item, status);
}

absl::Status InferStream::Submit(const ItemPtr& item, const grpc::ByteBuffer& buffer) {
  inference::ModelInferRequest message;
  const absl::Status parsed = item->state->Parse(buffer, message);
  item->answer.id = item->state->request_id();
  BEAMLINE_RETURN_IF_ERROR(parsed);
  item->answer.model_name = message.model_name();
  item->answer.model_version = message.model_version();
  BEAMLINE_RETURN_IF_ERROR(EnterAgain(services(), caller_, Right::kInference));
  BEAMLINE_RETURN_IF_ERROR(item->state->Admit());
  BEAMLINE_ASSIGN_OR_RETURN(const InferTranslation translation,
                            TranslateInfer(*item->state, message, caller_));
  if (translation.stream) return SubmitStream(item, translation);
  BEAMLINE_ASSIGN_OR_RETURN(
      auto handle, InferMethod::Submit(*item->state, translation, caller_,
                                       std::make_shared<LastSink>(*this, item), item->answer));
  Keep(item, handle);
  return absl::OkStatus();
}

absl::Status InferStream::SubmitStream(const ItemPtr& item, const InferTranslation& translation) {
  Caller caller = caller_;
  caller.deadline = translation.deadline;
  const auto& request = std::get<v1::GenerateRequest>(translation.request);
  auto prepared = PrepareGenerate(*item->state, request, caller);
  if (!prepared.ok()) return InInferRequest(prepared.status(), translation.answer.names);
  item->answer = translation.answer;
  item->answer.answer = std::move(prepared->answer);
  auto handle = item->state->CountRefusal(services().engine.Generate(
      std::move(prepared->request), std::make_shared<DeltaSink>(*this, item)));
  if (!handle.ok()) return InInferRequest(handle.status(), translation.answer.names);
  Keep(item, *handle);
  return absl::OkStatus();
}

void InferStream::Keep(const ItemPtr& item, const std::shared_ptr<RequestHandle>& handle) {
  running_.Keep(item.get(), handle);
  std::lock_guard lock(item->mutex);
  if (!item->refused.ok()) handle->Cancel();  // refused before there was a handle
}

void InferStream::Push(const ItemPtr& item, GenerateDelta delta) {
  std::lock_guard lock(item->mutex);
  if (!item->refused.ok()) return;
  item->waiting.Add(std::move(delta));
  WakeLocked(item);
}

void InferStream::End(const ItemPtr& item, absl::StatusOr<GenerateResult> result) {
  std::lock_guard lock(item->mutex);
  item->result = std::move(result);
  WakeLocked(item);
}

void InferStream::WakeLocked(const ItemPtr& item) {
  if (item->busy) return;
  item->busy = true;
  const auto turn =
      std::exchange(item->begun, true) ? WorkerPool::Turn::kLast : WorkerPool::Turn::kFirst;
  services().writers.PostSend([this, item] { Advance(item); }, turn);
}

void InferStream::Advance(const ItemPtr& item) {
  std::vector<GenerateDelta> deltas;
  const absl::StatusOr<GenerateResult>* end = nullptr;
  absl::Status refused;
  {
    std::lock_guard lock(item->mutex);
    refused = item->refused;
    if (refused.ok()) deltas = item->waiting.Take();
    const bool all_taken = !refused.ok() || item->waiting.empty();
    if (item->result.has_value() && all_taken) end = &*item->result;
    if (deltas.empty() && end == nullptr) {
      item->busy = false;
      return;
    }
  }
  if (!refused.ok()) return Fail(item, refused);
  SendDeltas(item, std::move(deltas), end);
}

void InferStream::SendDeltas(const ItemPtr& item, std::vector<GenerateDelta> deltas,
                             const absl::StatusOr<GenerateResult>* end) {
  if (end != nullptr && !end->ok())
    return Fail(item, InInferRequest(end->status(), item->answer.names));
  v1::GenerateStreamResponse message;
  for (GenerateDelta& delta : deltas) {
    *message.add_deltas() = ToMessage(std::move(delta), item->answer.answer);
  }
  if (end != nullptr) {
    item->state->SetAnswer((*end)->timing, (*end)->usage);
    *message.mutable_end() = ToStreamEnd(**end, item->answer.answer);
    return Finish(item, ToInferResponse(message, item->answer));
  }
  inference::ModelStreamInferResponse part;
  *part.mutable_infer_response() = ToInferResponse(message, item->answer);
  SetFinal(false, *part.mutable_infer_response());
  const auto bytes = static_cast<int64_t>(part.ByteSizeLong());
  const int64_t limit = services().stream_limits.max_send_bytes;
  if (bytes > limit) {
    {
      std::lock_guard lock(item->mutex);
      item->refused = AnswerTooLarge(bytes, limit);
    }
    running_.Cancel(item.get());
    return Advance(item);  // the request must wait for the engine's result
  }
  item->state->AddAnswerBytes(bytes);
  // The next part is made when this one is written.
  AnswerPart(SerializeMessage(part), [this, item] {
    services().writers.PostSend([this, item] { Advance(item); }, WorkerPool::Turn::kLast);
  });
}

void InferStream::Complete(const ItemPtr& item, const absl::StatusOr<InferResult>& result) {
  if (!result.ok()) return Fail(item, result.status());
  const auto response = InferMethod::Answer(*item->state, *result, item->answer);
  if (!response.ok()) return Fail(item, response.status());
  Finish(item, *response);
}

void InferStream::Finish(const ItemPtr& item, const inference::ModelInferResponse& response) {
  inference::ModelStreamInferResponse message;
  *message.mutable_infer_response() = response;
  SetFinal(true, *message.mutable_infer_response());
  const auto bytes = static_cast<int64_t>(message.ByteSizeLong());
  const int64_t limit = services().stream_limits.max_send_bytes;
  if (bytes > limit) return Fail(item, AnswerTooLarge(bytes, limit));
  Send(item, message);
}

void InferStream::Fail(const ItemPtr& item, const absl::Status& status) {
  const google::rpc::Status error = item->state->Fail(status);
  inference::ModelStreamInferResponse message;
  message.set_error_message(
      fmt::format("{}: {}", absl::StatusCodeToString(static_cast<absl::StatusCode>(error.code())),
                  error.message()));
  *message.mutable_infer_response() = EmptyInferResponse(item->answer);
  SetFinal(true, *message.mutable_infer_response());
  // Happens with an id that is refused for its length.
  if (static_cast<int64_t>(message.ByteSizeLong()) > services().stream_limits.max_send_bytes) {
    message.clear_infer_response();
  }
  Send(item, message);
}

void InferStream::Send(const ItemPtr& item, const inference::ModelStreamInferResponse& message) {
  running_.Remove(item.get());
  item->state->AddAnswerBytes(static_cast<int64_t>(message.ByteSizeLong()));
  Answer(SerializeMessage(message), std::move(item->state));
}

}  // namespace beamline
