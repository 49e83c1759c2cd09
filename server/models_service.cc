#include "server/models_service.h"

#include "server/calls/failed_call.h"
#include "server/calls/model_calls.h"
#include "server/errors.h"

namespace beamline {

grpc::ServerUnaryReactor* ModelsService::ListModels(Context*, const Buffer*, Buffer* response) {
  auto* call = new ListModelsCall(services_, response);
  call->Start();
  return call;
}

grpc::ServerUnaryReactor* ModelsService::GetModel(Context*, const Buffer* request,
                                                  Buffer* response) {
  auto* call = new GetModelCall(services_, response);
  call->Start(*request);
  return call;
}

grpc::ServerUnaryReactor* ModelsService::LoadModel(Context*, const Buffer*, Buffer*) {
  return new FailedUnaryCall(ToGrpcStatus(NotImplemented("LoadModel")));
}

grpc::ServerUnaryReactor* ModelsService::UnloadModel(Context*, const Buffer*, Buffer*) {
  return new FailedUnaryCall(ToGrpcStatus(NotImplemented("UnloadModel")));
}

}  // namespace beamline
