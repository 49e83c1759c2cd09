// ListModels and GetModel.
#pragma once

#include "beamline/v1/models.pb.h"
#include "server/calls/unary_call.h"

namespace beamline {

// A model's message, as ListModels and GetModel return it.
v1::Model ToMessage(ServiceContext& services, const ModelInfo& model);

class ListModelsCall final : public UnaryCall {
 public:
  ListModelsCall(ServiceContext& services, grpc::ByteBuffer* response)
      : UnaryCall(services, Rpc::kListModels, response) {}
  void Start();
};

class GetModelCall final : public UnaryCall {
 public:
  GetModelCall(ServiceContext& services, grpc::ByteBuffer* response)
      : UnaryCall(services, Rpc::kGetModel, response) {}
  void Start(const grpc::ByteBuffer& buffer);
};

}  // namespace beamline
