// Generate: one request to the engine, one answer.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "engine/engine.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/calls/unary_call.h"
#include "server/conversion/response.h"

namespace beamline {

// A generation request that is ready for the engine. Shared by Generate and GenerateStream.
struct PreparedGenerate {
  GenerateRequest request;
  AnswerOptions answer;
};

// Admits, parses into `message` (which error details refer to), resolves the model and converts.
absl::StatusOr<PreparedGenerate> PrepareGenerate(CallState& call,
                                                 const grpc::CallbackServerContext& context,
                                                 const grpc::ByteBuffer& buffer,
                                                 v1::GenerateRequest& message);

class GenerateCall final : public UnaryCall {
 public:
  GenerateCall(ServiceContext& services, grpc::ByteBuffer* response)
      : UnaryCall(services, Rpc::kGenerate, response) {}
  // To be called once, within the service's method.
  void Start(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& buffer);
  void OnCancel() override;

 private:
  class Sink;

  absl::Status Submit(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& buffer);
  void Complete();

  v1::GenerateRequest message_;
  AnswerOptions answer_;
  std::shared_ptr<RequestHandle> handle_;
  std::optional<absl::StatusOr<GenerateResult>> result_;
};

}  // namespace beamline
