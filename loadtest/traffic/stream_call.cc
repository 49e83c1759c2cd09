#include "loadtest/traffic/stream_call.h"

#include <variant>

namespace beamline::loadtest {

void StreamCall::Launch(v1::Inference::Stub& stub, grpc::CompletionQueue& queue) {
  // Prepared before the start, because the start's event may arrive before an assignment finishes.
  rpc_ = stub.PrepareAsyncGenerateStream(&context_, std::get<v1::GenerateRequest>(request().body),
                                         &queue);
  rpc_->StartCall(static_cast<EventHandler*>(this));
}

void StreamCall::OnEvent(bool ok) {
  auto* const tag = static_cast<EventHandler*>(this);
  if (state_ == State::kFinishing) return Done();
  if (ok && state_ == State::kReading) {
    answer_.Append(message_);
    NoteTokens();
  }
  if (!ok) {
    state_ = State::kFinishing;
    rpc_->Finish(&status_, tag);
    return;
  }
  state_ = State::kReading;
  rpc_->Read(&message_, tag);
}

}  // namespace beamline::loadtest
