// Calls with one request and one answer.
#pragma once

#include <grpcpp/support/async_unary_call.h>

#include <memory>
#include <variant>

#include "loadtest/traffic/call.h"

namespace beamline::loadtest {

// Prepares the stub's method for the type of request.
inline auto PrepareUnary(v1::Inference::Stub& stub, grpc::ClientContext& context,
                         const v1::GenerateRequest& request, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncGenerate(&context, request, &queue);
}
inline auto PrepareUnary(v1::Inference::Stub& stub, grpc::ClientContext& context,
                         const v1::EncodeRequest& request, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncEncode(&context, request, &queue);
}
inline auto PrepareUnary(v1::Inference::Stub& stub, grpc::ClientContext& context,
                         const v1::ScoreRequest& request, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncScore(&context, request, &queue);
}
inline auto PrepareUnary(v1::Inference::Stub& stub, grpc::ClientContext& context,
                         const v1::ClassifyRequest& request, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncClassify(&context, request, &queue);
}
inline auto PrepareUnary(v1::Inference::Stub& stub, grpc::ClientContext& context,
                         const v1::ClassifyTokensRequest& request, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncClassifyTokens(&context, request, &queue);
}
inline auto PrepareUnary(v1::Inference::Stub& stub, grpc::ClientContext& context,
                         const v1::FillMaskRequest& request, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncFillMask(&context, request, &queue);
}
inline auto PrepareUnary(v1::Inference::Stub& stub, grpc::ClientContext& context,
                         const v1::RerankRequest& request, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncRerank(&context, request, &queue);
}
inline auto PrepareUnary(v1::Inference::Stub& stub, grpc::ClientContext& context,
                         const v1::TokenizeRequest& request, grpc::CompletionQueue& queue) {
  return stub.PrepareAsyncTokenize(&context, request, &queue);
}

template <typename Message, typename Response>
class UnaryCall final : public Call {
 public:
  using Call::Call;

  void OnEvent(bool /*ok*/) override {
    if (status_.ok()) answer_.Append(response_);
    Done();
  }

 private:
  void Launch(v1::Inference::Stub& stub, grpc::CompletionQueue& queue) override {
    rpc_ = PrepareUnary(stub, context_, std::get<Message>(request().body), queue);
    rpc_->StartCall();
    rpc_->Finish(&response_, &status_, static_cast<EventHandler*>(this));
  }

  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> rpc_;
  Response response_;
};

using GenerateCall = UnaryCall<v1::GenerateRequest, v1::GenerateResponse>;
using EncodeCall = UnaryCall<v1::EncodeRequest, v1::EncodeResponse>;
using ScoreCall = UnaryCall<v1::ScoreRequest, v1::ScoreResponse>;
using ClassifyCall = UnaryCall<v1::ClassifyRequest, v1::ClassifyResponse>;
using ClassifyTokensCall = UnaryCall<v1::ClassifyTokensRequest, v1::ClassifyTokensResponse>;
using FillMaskCall = UnaryCall<v1::FillMaskRequest, v1::FillMaskResponse>;
using RerankCall = UnaryCall<v1::RerankRequest, v1::RerankResponse>;
using TokenizeCall = UnaryCall<v1::TokenizeRequest, v1::TokenizeResponse>;

}  // namespace beamline::loadtest
