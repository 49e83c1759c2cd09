// beamline.v1.Models: lists models and, at the admin address, loads, unloads and restarts them.
#pragma once

#include "beamline/v1/models.grpc.pb.h"
#include "server/calls/admin_calls.h"
#include "server/calls/call_state.h"

namespace beamline {

// Every method takes raw buffers; server/wire/wire.h says why.
using RawModels =
    v1::Models::WithRawCallbackMethod_ListModels<v1::Models::WithRawCallbackMethod_GetModel<
        v1::Models::WithRawCallbackMethod_LoadModel<v1::Models::WithRawCallbackMethod_UnloadModel<
            v1::Models::WithRawCallbackMethod_RestartReplica<v1::Models::Service>>>>>;

// Where this server loads and unloads models: nowhere, at another address than this service's, or
// here.
enum class AdminAccess : uint8_t { kNowhere, kElsewhere, kHere };

class ModelsService final : public RawModels {
 public:
  // `admin` outlives the service. Null unless `access` is kHere.
  ModelsService(ServiceContext& services, AdminAccess access, ModelAdmin* admin);

  using Context = grpc::CallbackServerContext;
  using Buffer = grpc::ByteBuffer;

  grpc::ServerUnaryReactor* ListModels(Context* context, const Buffer* request,
                                       Buffer* response) override;
  grpc::ServerUnaryReactor* GetModel(Context* context, const Buffer* request,
                                     Buffer* response) override;
  // PERMISSION_DENIED when access is kElsewhere, UNIMPLEMENTED when it is kNowhere.
  grpc::ServerUnaryReactor* LoadModel(Context* context, const Buffer* request,
                                      Buffer* response) override;
  grpc::ServerUnaryReactor* UnloadModel(Context* context, const Buffer* request,
                                        Buffer* response) override;
  grpc::ServerUnaryReactor* RestartReplica(Context* context, const Buffer* request,
                                           Buffer* response) override;

 private:
  // Registers the RPC to read its request as message_gate.h describes.
  template <auto kMethod>
  void Gate(Rpc rpc, Right right);
  template <typename Call>
  grpc::ServerUnaryReactor* StartAdminCall(const char* name, Context* context,
                                           const Buffer* request, Buffer* response);

  ServiceContext& services_;
  const AdminAccess access_;
  ModelAdmin* const admin_;
};

}  // namespace beamline
