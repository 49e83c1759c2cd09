#include "server/inference_service.h"

#include "server/calls/encode_call.h"
#include "server/calls/failed_call.h"
#include "server/calls/generate_call.h"
#include "server/calls/stream_call.h"
#include "server/calls/token_calls.h"

namespace beamline {

grpc::ServerUnaryReactor* InferenceService::Generate(Context* context, const Buffer* request,
                                                     Buffer* response) {
  auto* call = new GenerateCall(services_, response);
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
  auto* call = new EncodeCall(services_, response);
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
    Context*) {
  return new FailedBidiCall(ToGrpcStatus(NotImplemented("GenerateMany")));
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferenceService::EncodeMany(
    Context*) {
  return new FailedBidiCall(ToGrpcStatus(NotImplemented("EncodeMany")));
}

grpc::ServerUnaryReactor* InferenceService::Score(Context*, const Buffer*, Buffer*) {
  return new FailedUnaryCall(ToGrpcStatus(NotImplemented("Score")));
}

}  // namespace beamline
