#include "server/inference_service.h"

#include "server/calls/engine_call.h"
#include "server/calls/many_call.h"
#include "server/calls/methods.h"
#include "server/calls/stream_call.h"
#include "server/calls/token_calls.h"

namespace beamline {

grpc::ServerUnaryReactor* InferenceService::Generate(Context* context, const Buffer* request,
                                                     Buffer* response) {
  auto* call = new EngineCall<GenerateMethod>(services_, Rpc::kGenerate, response);
  call->Start(*context, *request);
  return call;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* InferenceService::GenerateStream(
    Context* context, const Buffer* request) {
  auto* call = new StreamCall(services_);
  call->Start(*context, *request);
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Encode(Context* context, const Buffer* request,
                                                   Buffer* response) {
  auto* call = new EngineCall<EncodeMethod>(services_, Rpc::kEncode, response);
  call->Start(*context, *request);
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(Context*, const Buffer* request,
                                                     Buffer* response) {
  auto* call = new TokenizeCall(services_, response);
  call->Start(*request);
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(Context*, const Buffer* request,
                                                       Buffer* response) {
  auto* call = new DetokenizeCall(services_, response);
  call->Start(*request);
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceService::GenerateMany(
    Context* context) {
  auto* call = new GenerateManyCall(services_, CallerOf(*context));
  call->Start();
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceService::EncodeMany(
    Context* context) {
  auto* call = new EncodeManyCall(services_, CallerOf(*context));
  call->Start();
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Score(Context* context, const Buffer* request,
                                                  Buffer* response) {
  auto* call = new EngineCall<ScoreMethod>(services_, Rpc::kScore, response);
  call->Start(*context, *request);
  return call;
}

}  // namespace beamline
