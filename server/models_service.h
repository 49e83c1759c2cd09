// beamline.v1.Models: what is loaded; and, at the admin address, what is to be.
#pragma once

#include "beamline/v1/models.grpc.pb.h"
#include "server/calls/admin_calls.h"
#include "server/calls/call_state.h"

namespace beamline {

// Every method takes raw buffers; server/wire.h says why.
using RawModels = v1::Models::WithRawCallbackMethod_ListModels<
    v1::Models::WithRawCallbackMethod_GetModel<v1::Models::WithRawCallbackMethod_LoadModel<
        v1::Models::WithRawCallbackMethod_UnloadModel<v1::Models::Service>>>>;

// Where models are loaded and unloaded.
enum class AdminAccess : uint8_t { kNowhere, kElsewhere, kHere };

class ModelsService final : public RawModels {
 public:
  // `admin` outlives it; null unless `access` is kHere.
  ModelsService(ServiceContext& services, AdminAccess access, ModelAdmin* admin)
      : services_(services), access_(access), admin_(admin) {}

  using Context = grpc::CallbackServerContext;
  using Buffer = grpc::ByteBuffer;

  grpc::ServerUnaryReactor* ListModels(Context* context, const Buffer* request,
                                       Buffer* response) override;
  grpc::ServerUnaryReactor* GetModel(Context* context, const Buffer* request,
                                     Buffer* response) override;
  // Elsewhere PERMISSION_DENIED or, where the operator has no admin address, UNIMPLEMENTED.
  grpc::ServerUnaryReactor* LoadModel(Context* context, const Buffer* request,
                                      Buffer* response) override;
  grpc::ServerUnaryReactor* UnloadModel(Context* context, const Buffer* request,
                                        Buffer* response) override;

 private:
  template <typename Call>
  grpc::ServerUnaryReactor* StartAdminCall(const char* name, const Buffer* request,
                                           Buffer* response);

  ServiceContext& services_;
  const AdminAccess access_;
  ModelAdmin* const admin_;
};

}  // namespace beamline
