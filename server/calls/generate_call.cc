#include "server/calls/generate_call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "kernels/status.h"
#include "server/conversion/request.h"

namespace beamline {
namespace {

// A unary answer is whole or an error.
absl::Status CheckComplete(const GenerateResult& result) {
  for (const GeneratedSequence& sequence : result.sequences) {
    if (sequence.finish_reason == FinishReason::kDeadline) {
      return absl::DeadlineExceededError(
          fmt::format("the deadline passed after {} tokens; GenerateStream returns what there is",
                      result.usage.generated_tokens));
    }
    if (sequence.finish_reason == FinishReason::kCancelled) {
      return absl::CancelledError("the request was cancelled");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PreparedGenerate> PrepareGenerate(CallState& call,
                                                 const grpc::CallbackServerContext& context,
                                                 const grpc::ByteBuffer& buffer,
                                                 v1::GenerateRequest& message) {
  BEAMLINE_RETURN_IF_ERROR(call.Admit());
  BEAMLINE_RETURN_IF_ERROR(ParseMessage(buffer, message));
  BEAMLINE_ASSIGN_OR_RETURN(
      const ModelInfo* model,
      call.services().models.Resolve(message.model(), ModelDirectory::Use::kGenerate));
  call.SetModel(model->name);
  PreparedGenerate prepared;
  BEAMLINE_ASSIGN_OR_RETURN(prepared.request, ToEngineRequest(message));
  prepared.request.model = model->name;
  prepared.request.deadline = EngineDeadline(context.deadline(), std::chrono::system_clock::now());
  prepared.answer.model = model->name;
  prepared.answer.request_id = message.request_id();
  prepared.answer.sampling = message.has_sampling();
  prepared.answer.return_token_ids = prepared.request.output.return_token_ids;
  return prepared;
}

// Lives as long as the engine wants; touches the call only until the call completes.
class GenerateCall::Sink final : public GenerateSink {
 public:
  explicit Sink(GenerateCall& call) : call_(call) {}

  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    GenerateCall* call = &call_;
    call->result_ = std::move(result);
    call->services().writers.Post([call] { call->Complete(); });
  }

 private:
  GenerateCall& call_;
};

void GenerateCall::Start(const grpc::CallbackServerContext& context,
                         const grpc::ByteBuffer& buffer) {
  const absl::Status status = Submit(context, buffer);
  if (!status.ok()) Fail(status, &message_);
}

absl::Status GenerateCall::Submit(const grpc::CallbackServerContext& context,
                                  const grpc::ByteBuffer& buffer) {
  BEAMLINE_ASSIGN_OR_RETURN(PreparedGenerate prepared,
                            PrepareGenerate(state(), context, buffer, message_));
  answer_ = std::move(prepared.answer);
  // OnCancel is not called before the service's method has returned, so it sees the handle.
  BEAMLINE_ASSIGN_OR_RETURN(handle_, services().engine.Generate(std::move(prepared.request),
                                                                std::make_shared<Sink>(*this)));
  return absl::OkStatus();
}

void GenerateCall::OnCancel() {
  if (handle_ != nullptr) handle_->Cancel();
}

void GenerateCall::Complete() {
  const absl::StatusOr<GenerateResult>& result = *result_;
  if (!result.ok()) return Fail(result.status(), &message_);
  state().SetAnswer(result->timing, result->usage.generated_tokens);
  const absl::Status complete = CheckComplete(*result);
  if (!complete.ok()) return Fail(complete);
  Reply(ToMessage(*result, answer_));
}

}  // namespace beamline
