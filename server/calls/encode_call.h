// Encode: one request to the engine, its embeddings back.
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

class EncodeCall final : public UnaryCall {
 public:
  EncodeCall(ServiceContext& services, grpc::ByteBuffer* response)
      : UnaryCall(services, Rpc::kEncode, response) {}
  // To be called once, within the service's method.
  void Start(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& buffer);
  void OnCancel() override;

 private:
  class Sink;

  absl::Status Submit(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& buffer);
  void Complete();

  v1::EncodeRequest message_;
  AnswerOptions answer_;
  std::shared_ptr<RequestHandle> handle_;
  std::optional<absl::StatusOr<EncodeResult>> result_;
};

}  // namespace beamline
