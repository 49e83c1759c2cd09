// Tokenize and Detokenize: a model's tokenizer, without its replica. Large texts go to the text
// workers, so that gRPC's threads stay free.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "server/calls/unary_call.h"

namespace beamline {

class TokenizeCall final : public UnaryCall {
 public:
  TokenizeCall(ServiceContext& services, grpc::ByteBuffer* response)
      : UnaryCall(services, Rpc::kTokenize, response) {}
  // To be called once, within the service's method.
  void Start(const grpc::ByteBuffer& buffer);

 private:
  absl::Status Prepare(const grpc::ByteBuffer& buffer);
  absl::StatusOr<v1::TokenizeResponse> Tokenize();
  void Run();

  v1::TokenizeRequest message_;
  std::string model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

class DetokenizeCall final : public UnaryCall {
 public:
  DetokenizeCall(ServiceContext& services, grpc::ByteBuffer* response)
      : UnaryCall(services, Rpc::kDetokenize, response) {}
  // To be called once, within the service's method.
  void Start(const grpc::ByteBuffer& buffer);

 private:
  absl::Status Prepare(const grpc::ByteBuffer& buffer);
  absl::StatusOr<v1::DetokenizeResponse> Detokenize() const;
  void Run();

  v1::DetokenizeRequest message_;
  std::string model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace beamline
