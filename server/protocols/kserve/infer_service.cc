#include "server/protocols/kserve/infer_service.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/build_info.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "server/calls/engine_call.h"
#include "server/calls/failed_call.h"
#include "server/protocols/kserve/infer_method.h"
#include "server/protocols/kserve/infer_stream.h"
#include "server/protocols/kserve/model_tensors.h"
#include "server/protocols/question_call.h"
#include "server/wire/errors.h"

namespace beamline {
namespace {

using ModelPtr = ModelDirectory::ModelPtr;

// The model that a request names. NOT_FOUND if there is none, as in GetModel.
template <typename Request>
absl::StatusOr<ModelPtr> FindModel(ServiceContext& services, const Request& request) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string name,
                            VersionedName("version", request.name(), request.version()));
  ModelPtr model = services.models.Find(name);
  if (model != nullptr) return model;
  return absl::NotFoundError(fmt::format("there is no model '{}'; models: {}{}", Shorten(name),
                                         services.models.Names(),
                                         services.models.Suggestion(name)));
}

absl::Status AnswerLive(ServiceContext&, const inference::ServerLiveRequest&,
                        inference::ServerLiveResponse& response) {
  response.set_live(true);
  return absl::OkStatus();
}

absl::Status AnswerReady(ServiceContext& services, const inference::ServerReadyRequest&,
                         inference::ServerReadyResponse& response) {
  bool ready = !services.admission.draining();
  for (const ModelPtr& model : services.models.models()) {
    ready = ready && (model->state == ModelState::kFailed || CanAnswer(*model));
  }
  response.set_ready(ready);
  return absl::OkStatus();
}

absl::Status AnswerModelReady(ServiceContext& services, const inference::ModelReadyRequest& request,
                              inference::ModelReadyResponse& response) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string name,
                            VersionedName("version", request.name(), request.version()));
  const ModelPtr model = services.models.Find(name);
  response.set_ready(model != nullptr && !services.admission.draining() && CanAnswer(*model));
  return absl::OkStatus();
}

absl::Status AnswerServer(ServiceContext&, const inference::ServerMetadataRequest&,
                          inference::ServerMetadataResponse& response) {
  response.set_name("beamline");
  response.set_version(std::string(ThisBuild().version));
  for (const char* extension : {"binary_tensor_data", "model_configuration", "model_repository",
                                "statistics", "parameters"}) {
    response.add_extensions(extension);
  }
  return absl::OkStatus();
}

absl::Status AnswerMetadata(ServiceContext& services,
                            const inference::ModelMetadataRequest& request,
                            inference::ModelMetadataResponse& response) {
  BEAMLINE_ASSIGN_OR_RETURN(const ModelPtr model, FindModel(services, request));
  response = ToMetadata(*model);
  for (const ModelPtr& one : services.models.models()) {
    if (one->name != model->name || one->state != ModelState::kReady) continue;
    response.add_versions(fmt::to_string(one->version));
  }
  return absl::OkStatus();
}

absl::Status AnswerConfig(ServiceContext& services, const inference::ModelConfigRequest& request,
                          inference::ModelConfigResponse& response) {
  BEAMLINE_ASSIGN_OR_RETURN(const ModelPtr model, FindModel(services, request));
  *response.mutable_config() = ToConfig(*model);
  return absl::OkStatus();
}

absl::Status AnswerStatistics(ServiceContext& services,
                              const inference::ModelStatisticsRequest& request,
                              inference::ModelStatisticsResponse& response) {
  const auto add = [&](const ModelInfo& model) {
    *response.add_model_stats() = ToStatistics(model, services.metrics.Totals(model.name));
  };
  if (!request.name().empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(const ModelPtr model, FindModel(services, request));
    add(*model);
    return absl::OkStatus();
  }
  std::set<std::string> names;
  for (const ModelPtr& one : services.models.models()) {
    if (!names.insert(one->name).second) continue;
    if (const ModelPtr model = services.models.Find(one->name); model != nullptr) add(*model);
  }
  return absl::OkStatus();
}

absl::Status AnswerIndex(ServiceContext& services, const inference::RepositoryIndexRequest& request,
                         inference::RepositoryIndexResponse& response) {
  for (const ModelPtr& model : services.models.models()) {
    if (request.ready() && !CanAnswer(*model)) continue;
    *response.add_models() = ToIndex(*model);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* RefuseAdministration(ServiceContext& services,
                                               const grpc::CallbackServerContext& context,
                                               const char* method) {
  const auto identity = Enter(services, ShownIn(context), Right::kAdmin);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  return new FailedUnaryCall(ToGrpcStatus(absl::UnimplementedError(
      fmt::format("models are not loaded by this protocol; beamline.v1.Models/{} does it at the "
                  "server's admin address (admin_listen)",
                  method))));
}

}  // namespace

InferService::InferService(ServiceContext& services) : services_(services) {
  Gate<&InferService::ServerLive>("ServerLive", {Rpc::kServerLive, Right::kAny});
  Gate<&InferService::ServerReady>("ServerReady", {Rpc::kServerReady, Right::kAny});
  Gate<&InferService::ModelReady>("ModelReady", {Rpc::kModelReady, Right::kAny});
  Gate<&InferService::ServerMetadata>("ServerMetadata", {Rpc::kServerMetadata, Right::kAny});
  Gate<&InferService::ModelMetadata>("ModelMetadata", {Rpc::kModelMetadata, Right::kAny});
  Gate<&InferService::ModelInfer>("ModelInfer", {Rpc::kModelInfer, Right::kInference});
  Gate<&InferService::ModelConfig>("ModelConfig", {Rpc::kModelConfig, Right::kAny});
  Gate<&InferService::ModelStatistics>("ModelStatistics", {Rpc::kModelStatistics, Right::kAny});
  Gate<&InferService::RepositoryIndex>("RepositoryIndex", {Rpc::kRepositoryIndex, Right::kAny});
  const MethodAccess admin = {.rpc = std::nullopt, .right = Right::kAdmin};
  Gate<&InferService::RepositoryModelLoad>("RepositoryModelLoad", admin);
  Gate<&InferService::RepositoryModelUnload>("RepositoryModelUnload", admin);
}

template <auto kMethod>
void InferService::Gate(const char* name, const MethodAccess& access) {
  const int index = MethodIndex(*inference::ServerLiveRequest::descriptor()->file(),
                                "GRPCInferenceService", name);
  MarkMethodStreamed(index, GatedUnary(services_, access, BindMethod<kMethod>(this)));
}

grpc::ServerUnaryReactor* InferService::ServerLive(Context* context, const Buffer* request,
                                                   Buffer* response) {
  return AnswerQuestion<&AnswerLive>(services_, Rpc::kServerLive, *context, *request, response);
}

grpc::ServerUnaryReactor* InferService::ServerReady(Context* context, const Buffer* request,
                                                    Buffer* response) {
  return AnswerQuestion<&AnswerReady>(services_, Rpc::kServerReady, *context, *request, response);
}

grpc::ServerUnaryReactor* InferService::ModelReady(Context* context, const Buffer* request,
                                                   Buffer* response) {
  return AnswerQuestion<&AnswerModelReady>(services_, Rpc::kModelReady, *context, *request,
                                           response);
}

grpc::ServerUnaryReactor* InferService::ServerMetadata(Context* context, const Buffer* request,
                                                       Buffer* response) {
  return AnswerQuestion<&AnswerServer>(services_, Rpc::kServerMetadata, *context, *request,
                                       response);
}

grpc::ServerUnaryReactor* InferService::ModelMetadata(Context* context, const Buffer* request,
                                                      Buffer* response) {
  return AnswerQuestion<&AnswerMetadata>(services_, Rpc::kModelMetadata, *context, *request,
                                         response);
}

grpc::ServerUnaryReactor* InferService::ModelConfig(Context* context, const Buffer* request,
                                                    Buffer* response) {
  return AnswerQuestion<&AnswerConfig>(services_, Rpc::kModelConfig, *context, *request, response);
}

grpc::ServerUnaryReactor* InferService::ModelStatistics(Context* context, const Buffer* request,
                                                        Buffer* response) {
  return AnswerQuestion<&AnswerStatistics>(services_, Rpc::kModelStatistics, *context, *request,
                                           response);
}

grpc::ServerUnaryReactor* InferService::RepositoryIndex(Context* context, const Buffer* request,
                                                        Buffer* response) {
  return AnswerQuestion<&AnswerIndex>(services_, Rpc::kRepositoryIndex, *context, *request,
                                      response);
}

grpc::ServerUnaryReactor* InferService::RepositoryModelLoad(Context* context, const Buffer*,
                                                            Buffer*) {
  return RefuseAdministration(services_, *context, "LoadModel");
}

grpc::ServerUnaryReactor* InferService::RepositoryModelUnload(Context* context, const Buffer*,
                                                              Buffer*) {
  return RefuseAdministration(services_, *context, "UnloadModel");
}

grpc::ServerUnaryReactor* InferService::ModelInfer(Context* context, const Buffer* request,
                                                   Buffer* response) {
  const auto identity = Enter(services_, Rpc::kModelInfer, *context, Right::kInference);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new EngineCall<InferMethod>(services_, Rpc::kModelInfer, response);
  call->Start(CallerOf(*context, *identity), *request);
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* InferService::ModelStreamInfer(
    Context* context) {
  const auto identity = Enter(services_, Rpc::kModelStreamInfer, *context, Right::kInference);
  if (!identity.ok()) return new FailedManyCall(ToGrpcStatus(identity.status()));
  auto* call = new InferStream(services_, CallerOf(*context, *identity));
  call->Start(*context, *identity);
  return call;
}

}  // namespace beamline
