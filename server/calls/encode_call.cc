#include "server/calls/encode_call.h"

#include <utility>

#include "kernels/status.h"
#include "server/conversion/request.h"

namespace beamline {

// Lives as long as the engine wants; touches the call only until the call completes.
class EncodeCall::Sink final : public EncodeSink {
 public:
  explicit Sink(EncodeCall& call) : call_(call) {}

  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    EncodeCall* call = &call_;
    call->result_ = std::move(result);
    call->services().writers.Post([call] { call->Complete(); });
  }

 private:
  EncodeCall& call_;
};

void EncodeCall::Start(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& buffer) {
  const absl::Status status = Submit(context, buffer);
  if (!status.ok()) Fail(status, &message_);
}

absl::Status EncodeCall::Submit(const grpc::CallbackServerContext& context,
                                const grpc::ByteBuffer& buffer) {
  BEAMLINE_RETURN_IF_ERROR(state().Admit());
  BEAMLINE_RETURN_IF_ERROR(ParseMessage(buffer, message_));
  BEAMLINE_ASSIGN_OR_RETURN(
      const ModelInfo* model,
      services().models.Resolve(message_.model(), ModelDirectory::Use::kEncode));
  state().SetModel(model->name);
  BEAMLINE_ASSIGN_OR_RETURN(EncodeRequest request, ToEngineRequest(message_));
  request.model = model->name;
  request.deadline = EngineDeadline(context.deadline(), std::chrono::system_clock::now());
  answer_.model = model->name;
  answer_.request_id = message_.request_id();
  // OnCancel is not called before the service's method has returned, so it sees the handle.
  BEAMLINE_ASSIGN_OR_RETURN(
      handle_, services().engine.Encode(std::move(request), std::make_shared<Sink>(*this)));
  return absl::OkStatus();
}

void EncodeCall::OnCancel() {
  if (handle_ != nullptr) handle_->Cancel();
}

void EncodeCall::Complete() {
  const absl::StatusOr<EncodeResult>& result = *result_;
  if (!result.ok()) return Fail(result.status(), &message_);
  state().SetAnswer(result->timing, 0);
  Reply(ToMessage(*result, answer_));
}

}  // namespace beamline
