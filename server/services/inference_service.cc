#include "server/services/inference_service.h"

#include "server/calls/engine_call.h"
#include "server/calls/failed_call.h"
#include "server/calls/many_call.h"
#include "server/calls/message_gate.h"
#include "server/calls/methods.h"
#include "server/calls/stream_call.h"
#include "server/calls/token_calls.h"
#include "server/wire/errors.h"

namespace beamline {
namespace {

// Starts a call that makes one request to the engine.
template <typename Method>
grpc::ServerUnaryReactor* StartInference(ServiceContext& services, Rpc rpc,
                                         grpc::CallbackServerContext& context,
                                         const grpc::ByteBuffer& request,
                                         grpc::ByteBuffer* response) {
  const auto identity = Enter(services, rpc, context, Right::kInference);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new EngineCall<Method>(services, rpc, response);
  call->Start(CallerOf(context, *identity), request);
  return call;
}

// An RPC and its method have the same name.
int IndexOf(Rpc rpc) {
  return MethodIndex(*v1::EncodeRequest::descriptor()->file(), "Inference",
                     kRpcNames[static_cast<size_t>(rpc)]);
}

}  // namespace

InferenceService::InferenceService(ServiceContext& services) : services_(services) {
  Gate<&InferenceService::Generate>(Rpc::kGenerate);
  Gate<&InferenceService::Encode>(Rpc::kEncode);
  Gate<&InferenceService::Score>(Rpc::kScore);
  Gate<&InferenceService::Tokenize>(Rpc::kTokenize);
  Gate<&InferenceService::Detokenize>(Rpc::kDetokenize);
  Gate<&InferenceService::Classify>(Rpc::kClassify);
  Gate<&InferenceService::Rerank>(Rpc::kRerank);
  Gate<&InferenceService::ClassifyTokens>(Rpc::kClassifyTokens);
  Gate<&InferenceService::FillMask>(Rpc::kFillMask);
  MarkMethodStreamed(IndexOf(Rpc::kGenerateStream),
                     GatedStream(services_, {Rpc::kGenerateStream},
                                 [this](Context* context, const Buffer* request) {
                                   return GenerateStream(context, request);
                                 }));
}

template <auto kMethod>
void InferenceService::Gate(Rpc rpc) {
  MarkMethodStreamed(IndexOf(rpc), GatedUnary(services_, {rpc}, BindMethod<kMethod>(this)));
}

grpc::ServerUnaryReactor* InferenceService::Generate(Context* context, const Buffer* request,
                                                     Buffer* response) {
  return StartInference<GenerateMethod>(services_, Rpc::kGenerate, *context, *request, response);
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
  return StartInference<EncodeMethod>(services_, Rpc::kEncode, *context, *request, response);
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
  call->Start(*context, *identity);
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceService::EncodeMany(
    Context* context) {
  const auto identity = Enter(services_, Rpc::kEncodeMany, *context, Right::kInference);
  if (!identity.ok()) return new FailedManyCall(ToGrpcStatus(identity.status()));
  auto* call = new EncodeManyCall(services_, CallerOf(*context, *identity));
  call->Start(*context, *identity);
  return call;
}

grpc::ServerUnaryReactor* InferenceService::Score(Context* context, const Buffer* request,
                                                  Buffer* response) {
  return StartInference<ScoreMethod>(services_, Rpc::kScore, *context, *request, response);
}

grpc::ServerUnaryReactor* InferenceService::Classify(Context* context, const Buffer* request,
                                                     Buffer* response) {
  return StartInference<ClassifyMethod>(services_, Rpc::kClassify, *context, *request, response);
}

grpc::ServerUnaryReactor* InferenceService::Rerank(Context* context, const Buffer* request,
                                                   Buffer* response) {
  return StartInference<RerankMethod>(services_, Rpc::kRerank, *context, *request, response);
}

grpc::ServerUnaryReactor* InferenceService::ClassifyTokens(Context* context, const Buffer* request,
                                                           Buffer* response) {
  return StartInference<ClassifyTokensMethod>(services_, Rpc::kClassifyTokens, *context, *request,
                                              response);
}

grpc::ServerUnaryReactor* InferenceService::FillMask(Context* context, const Buffer* request,
                                                     Buffer* response) {
  return StartInference<FillMaskMethod>(services_, Rpc::kFillMask, *context, *request, response);
}

}  // namespace beamline
