#include "server/inference_service.h"

#include "server/calls/engine_call.h"
#include "server/calls/failed_call.h"
#include "server/calls/many_call.h"
#include "server/calls/methods.h"
#include "server/calls/stream_call.h"
#include "server/calls/token_calls.h"
#include "server/errors.h"

namespace beamline {

grpc::ServerUnaryReactor* InferenceService::Generate(Context* context, const Buffer* request,
                                                     Buffer* response) {
  const auto identity = Enter(services_, Rpc::kGenerate, *context, Right::kInference);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new EngineCall<GenerateMethod>(services_, Rpc::kGenerate, response);
  call->Start(CallerOf(*context, *identity), *request);
  return call;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::GenerateStream(
    Context* context, const Buffer* request) {
  const auto identity = Enter(services_, Rpc::kGenerateStream, *context, Right::kInference);
  if (!identity.ok()) return new FailedStreamCall(ToGrpcStatus(identity.status()));
  auto* call = new StreamCall(services_);
  call->Start(*context, *identity, *request);
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Encode(Context* context, const Buffer* request,
                                                   Buffer* response) {
  const auto identity = Enter(services_, Rpc::kEncode, *context, Right::kInference);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new EngineCall<EncodeMethod>(services_, Rpc::kEncode, response);
  call->Start(CallerOf(*context, *identity), *request);
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(Context* context, const Buffer* request,
                                                     Buffer* response) {
  const auto identity = Enter(services_, Rpc::kTokenize, *context, Right::kInference);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new TokenCall<TokenizeMethod>(services_, Rpc::kTokenize, response);
  call->SetCaller(CallerOf(*context, *identity));
  call->Start(*request);
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(Context* context, const Buffer* request,
                                                       Buffer* response) {
  const auto identity = Enter(services_, Rpc::kDetokenize, *context, Right::kInference);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new TokenCall<DetokenizeMethod>(services_, Rpc::kDetokenize, response);
  call->SetCaller(CallerOf(*context, *identity));
  call->Start(*request);
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceService::GenerateMany(
    Context* context) {
  const auto identity = Enter(services_, Rpc::kGenerateMany, *context, Right::kInference);
  if (!identity.ok()) return new FailedManyCall(ToGrpcStatus(identity.status()));
  auto* call = new GenerateManyCall(services_, CallerOf(*context, *identity));
  call->Start();
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceService::EncodeMany(
    Context* context) {
  const auto identity = Enter(services_, Rpc::kEncodeMany, *context, Right::kInference);
  if (!identity.ok()) return new FailedManyCall(ToGrpcStatus(identity.status()));
  auto* call = new EncodeManyCall(services_, CallerOf(*context, *identity));
  call->Start();
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Score(Context* context, const Buffer* request,
                                                  Buffer* response) {
  const auto identity = Enter(services_, Rpc::kScore, *context, Right::kInference);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new EngineCall<ScoreMethod>(services_, Rpc::kScore, response);
  call->Start(CallerOf(*context, *identity), *request);
  return call;
}

}  // namespace beamline
