#include "server/services/models_service.h"

#include "fmt/format.h"
#include "server/calls/failed_call.h"
#include "server/calls/message_gate.h"
#include "server/calls/model_calls.h"
#include "server/net/busy_ports.h"
#include "server/wire/errors.h"

namespace beamline {

ModelsService::ModelsService(ServiceContext& services, AdminAccess access, ModelAdmin* admin)
    : services_(services), access_(access), admin_(admin) {
  Gate<&ModelsService::ListModels>(Rpc::kListModels, Right::kAny);
  Gate<&ModelsService::GetModel>(Rpc::kGetModel, Right::kAny);
  Gate<&ModelsService::LoadModel>(LoadModelCall::kRpc, Right::kAdmin);
  Gate<&ModelsService::UnloadModel>(UnloadModelCall::kRpc, Right::kAdmin);
  Gate<&ModelsService::RestartReplica>(RestartReplicaCall::kRpc, Right::kAdmin);
}

template <auto kMethod>
void ModelsService::Gate(Rpc rpc, Right right) {
  const int index = MethodIndex(*v1::ListModelsRequest::descriptor()->file(), "Models",
                                kRpcNames[static_cast<size_t>(rpc)]);
  MarkMethodStreamed(index, GatedUnary(services_, {rpc, right}, BindMethod<kMethod>(this)));
}

grpc::ServerUnaryReactor* ModelsService::ListModels(Context* context, const Buffer*,
                                                    Buffer* response) {
  const auto identity = Enter(services_, Rpc::kListModels, *context, Right::kAny);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new ListModelsCall(services_, response);
  call->SetCaller(CallerOf(*context, *identity));
  call->Start();
  return call;
}

grpc::ServerUnaryReactor* ModelsService::GetModel(Context* context, const Buffer* request,
                                                  Buffer* response) {
  const auto identity = Enter(services_, Rpc::kGetModel, *context, Right::kAny);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new GetModelCall(services_, response);
  call->SetCaller(CallerOf(*context, *identity));
  call->Start(*request);
  return call;
}

template <typename Call>
grpc::ServerUnaryReactor* ModelsService::StartAdminCall(const char* name, Context* context,
                                                        const Buffer* request, Buffer* response) {
  const auto identity = Enter(services_, Call::kRpc, *context, Right::kAdmin);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  switch (access_) {
    case AdminAccess::kNowhere:
      return new FailedUnaryCall(ToGrpcStatus(absl::UnimplementedError(fmt::format(
          "{} is off on this server; its operator turns it on with admin_listen and model_root",
          name))));
    case AdminAccess::kElsewhere:
      return new FailedUnaryCall(ToGrpcStatus(absl::PermissionDeniedError(
          fmt::format("{} is answered at the server's admin address alone (admin_listen)", name))));
    case AdminAccess::kHere:
      break;
  }
  auto* call = new Call(services_, *admin_, response);
  call->SetCaller(CallerOf(*context, *identity));
  call->Hold(PortOf(context->peer()));
  call->Start(*request);
  return call;
}

grpc::ServerUnaryReactor* ModelsService::LoadModel(Context* context, const Buffer* request,
                                                   Buffer* response) {
  return StartAdminCall<LoadModelCall>("LoadModel", context, request, response);
}

grpc::ServerUnaryReactor* ModelsService::UnloadModel(Context* context, const Buffer* request,
                                                     Buffer* response) {
  return StartAdminCall<UnloadModelCall>("UnloadModel", context, request, response);
}

grpc::ServerUnaryReactor* ModelsService::RestartReplica(Context* context, const Buffer* request,
                                                        Buffer* response) {
  return StartAdminCall<RestartReplicaCall>("RestartReplica", context, request, response);
}

}  // namespace beamline
