// inference.GRPCInferenceService: the Open Inference Protocol, and Triton's extensions that clients
// use. It shares engine, admission, gate and metrics with beamline.v1.
#pragma once

#include "inference/grpc_service.grpc.pb.h"
#include "server/calls/call_state.h"
#include "server/calls/message_gate.h"

namespace beamline {

using InferApi = inference::GRPCInferenceService;
// Every method takes raw buffers; server/wire/wire.h says why.
using RawInferMetadata =
    InferApi::WithRawCallbackMethod_ServerLive<InferApi::WithRawCallbackMethod_ServerReady<
        InferApi::WithRawCallbackMethod_ModelReady<InferApi::WithRawCallbackMethod_ServerMetadata<
            InferApi::WithRawCallbackMethod_ModelMetadata<InferApi::Service>>>>>;
using RawInfer =
    InferApi::WithRawCallbackMethod_ModelInfer<InferApi::WithRawCallbackMethod_ModelStreamInfer<
        InferApi::WithRawCallbackMethod_ModelConfig<InferApi::WithRawCallbackMethod_ModelStatistics<
            InferApi::WithRawCallbackMethod_RepositoryIndex<
                InferApi::WithRawCallbackMethod_RepositoryModelLoad<
                    InferApi::WithRawCallbackMethod_RepositoryModelUnload<RawInferMetadata>>>>>>>;

class InferService final : public RawInfer {
 public:
  explicit InferService(ServiceContext& services);

  using Context = grpc::CallbackServerContext;
  using Buffer = grpc::ByteBuffer;
  using Reactor = grpc::ServerUnaryReactor;

  Reactor* ServerLive(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* ServerReady(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* ModelReady(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* ServerMetadata(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* ModelMetadata(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* ModelInfer(Context* context, const Buffer* request, Buffer* response) override;
  grpc::ServerBidiReactor<Buffer, Buffer>* ModelStreamInfer(Context* context) override;
  Reactor* ModelConfig(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* ModelStatistics(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* RepositoryIndex(Context* context, const Buffer* request, Buffer* response) override;
  // UNIMPLEMENTED, naming the admin API instead. For callers with the admin permission.
  Reactor* RepositoryModelLoad(Context* context, const Buffer* request, Buffer* response) override;
  Reactor* RepositoryModelUnload(Context* context, const Buffer* request,
                                 Buffer* response) override;

 private:
  // Registers the unary method `name` to read its request as message_gate.h describes.
  template <auto kMethod>
  void Gate(const char* name, const MethodAccess& access);

  ServiceContext& services_;
};

}  // namespace beamline
