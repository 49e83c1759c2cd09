// A unary call that is one request to the engine: Generate, Encode, Score.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "engine/api/engine.h"
#include "server/calls/caller.h"
#include "server/calls/methods.h"
#include "server/calls/unary_call.h"

namespace beamline {

template <typename Method>
class EngineCall final : public UnaryCall {
 public:
  using UnaryCall::UnaryCall;

  // To be called once, within the service's method.
  void Start(Caller caller, const grpc::ByteBuffer& buffer) {
    state().TakeCaller(caller);
    const absl::Status status = Submit(caller, buffer);
    if (!status.ok()) Fail(status);
  }

  void OnCancel() override {
    UnaryCall::OnCancel();
    if (handle_ != nullptr) handle_->Cancel();
  }

 private:
  using Result = typename Method::Result;

  // Lives as long as the engine keeps it; touches the call only until the call completes.
  class Sink final : public Method::Sink {
   public:
    explicit Sink(EngineCall& call) : call_(call) {}
    void OnFinish(absl::StatusOr<Result> result) override {
      EngineCall* call = &call_;
      const bool brief = !result.ok() || Method::IsBrief(*result);
      call->result_ = std::move(result);
      WorkerPool& writers = call->services().writers;
      const auto complete = [call] { call->Complete(); };
      brief ? writers.PostBrief(complete) : writers.Post(complete);
    }

   private:
    EngineCall& call_;
  };

  absl::Status Submit(const Caller& caller, const grpc::ByteBuffer& buffer) {
    BEAMLINE_RETURN_IF_ERROR(state().Admit(buffer));
    BEAMLINE_RETURN_IF_ERROR(state().Parse(buffer, message_));
    // OnCancel is not called before the service's method has returned, so it sees the handle.
    BEAMLINE_ASSIGN_OR_RETURN(
        handle_, Method::Submit(state(), message_, caller, std::make_shared<Sink>(*this), answer_));
    return absl::OkStatus();
  }

  void Complete() {
    if (!result_->ok()) return Fail(result_->status());
    const auto response = Method::Answer(state(), **result_, answer_);
    if (!response.ok()) return Fail(response.status());
    Reply(*response);
  }

  typename Method::Request message_;
  typename Method::Options answer_;
  std::shared_ptr<RequestHandle> handle_;
  std::optional<absl::StatusOr<Result>> result_;
};

}  // namespace beamline
