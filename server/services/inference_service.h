// beamline.v1.Inference, with one reactor per call (server/calls/).
#pragma once

#include "beamline/v1/inference.grpc.pb.h"
#include "server/calls/call_state.h"

namespace beamline {

// Every method takes raw buffers; server/wire/wire.h says why.
using RawInference = v1::Inference::WithRawCallbackMethod_Generate<
    v1::Inference::WithRawCallbackMethod_GenerateStream<
        v1::Inference::WithRawCallbackMethod_GenerateMany<
            v1::Inference::WithRawCallbackMethod_Encode<
                v1::Inference::WithRawCallbackMethod_EncodeMany<
                    v1::Inference::WithRawCallbackMethod_Score<
                        v1::Inference::WithRawCallbackMethod_Tokenize<
                            v1::Inference::WithRawCallbackMethod_Detokenize<
                                v1::Inference::WithRawCallbackMethod_Classify<
                                    v1::Inference::WithRawCallbackMethod_Rerank<
                                        v1::Inference::WithRawCallbackMethod_ClassifyTokens<
                                            v1::Inference::WithRawCallbackMethod_FillMask<
                                                v1::Inference::Service>>>>>>>>>>>>;

class InferenceService final : public RawInference {
 public:
  explicit InferenceService(ServiceContext& services);

  using Context = grpc::CallbackServerContext;
  using Buffer = grpc::ByteBuffer;

  grpc::ServerUnaryReactor* Generate(Context* context, const Buffer* request,
                                     Buffer* response) override;
  grpc::ServerWriteReactor<Buffer>* GenerateStream(Context* context,
                                                   const Buffer* request) override;
  grpc::ServerUnaryReactor* Encode(Context* context, const Buffer* request,
                                   Buffer* response) override;
  grpc::ServerBidiReactor<Buffer, Buffer>* GenerateMany(Context* context) override;
  grpc::ServerBidiReactor<Buffer, Buffer>* EncodeMany(Context* context) override;
  grpc::ServerUnaryReactor* Score(Context* context, const Buffer* request,
                                  Buffer* response) override;
  grpc::ServerUnaryReactor* Tokenize(Context* context, const Buffer* request,
                                     Buffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(Context* context, const Buffer* request,
                                       Buffer* response) override;
  grpc::ServerUnaryReactor* Classify(Context* context, const Buffer* request,
                                     Buffer* response) override;
  grpc::ServerUnaryReactor* Rerank(Context* context, const Buffer* request,
                                   Buffer* response) override;
  grpc::ServerUnaryReactor* ClassifyTokens(Context* context, const Buffer* request,
                                           Buffer* response) override;
  grpc::ServerUnaryReactor* FillMask(Context* context, const Buffer* request,
                                     Buffer* response) override;

 private:
  // Registers a unary RPC, served by `kMethod`, to read its request as message_gate.h describes.
  template <auto kMethod>
  void Gate(Rpc rpc);

  ServiceContext& services_;
};

}  // namespace beamline
