// GenerateStream: one request with a streamed answer.
#pragma once

#include <grpcpp/support/async_stream.h>

#include <memory>

#include "loadtest/traffic/call.h"

namespace beamline::loadtest {

class StreamCall final : public Call {
 public:
  using Call::Call;

  void OnEvent(bool ok) override;

 private:
  enum class State { kStarting, kReading, kFinishing };

  void Launch(v1::Inference::Stub& stub, grpc::CompletionQueue& queue) override;

  State state_ = State::kStarting;
  std::unique_ptr<grpc::ClientAsyncReader<v1::GenerateStreamResponse>> rpc_;
  v1::GenerateStreamResponse message_;
};

}  // namespace beamline::loadtest
