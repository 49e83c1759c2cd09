// beamline.v1.Models: what is loaded.
#pragma once

#include "beamline/v1/models.grpc.pb.h"
#include "server/calls/call_state.h"

namespace beamline {

// Every method takes raw buffers; server/wire.h says why.
using RawModels = v1::Models::WithRawCallbackMethod_ListModels<
    v1::Models::WithRawCallbackMethod_GetModel<v1::Models::WithRawCallbackMethod_LoadModel<
        v1::Models::WithRawCallbackMethod_UnloadModel<v1::Models::Service>>>>;

class ModelsService final : public RawModels {
 public:
  explicit ModelsService(ServiceContext& services) : services_(services) {}

  using Context = grpc::CallbackServerContext;
  using Buffer = grpc::ByteBuffer;

  grpc::ServerUnaryReactor* ListModels(Context* context, const Buffer* request,
                                       Buffer* response) override;
  grpc::ServerUnaryReactor* GetModel(Context* context, const Buffer* request,
                                     Buffer* response) override;

  // UNIMPLEMENTED.
  grpc::ServerUnaryReactor* LoadModel(Context* context, const Buffer* request,
                                      Buffer* response) override;
  grpc::ServerUnaryReactor* UnloadModel(Context* context, const Buffer* request,
                                        Buffer* response) override;

 private:
  ServiceContext& services_;
};

}  // namespace beamline
