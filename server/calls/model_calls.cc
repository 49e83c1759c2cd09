#include "server/calls/model_calls.h"

#include "base/text.h"
#include "beamline/v1/models.pb.h"
#include "engine/text/tokenizer.h"
#include "fmt/format.h"
#include "server/conversion/response.h"

namespace beamline {
namespace {

v1::Model Describe(ServiceContext& services, const ModelInfo& model) {
  const auto tokenizer = services.engine.FindTokenizer(model.name);
  return ToMessage(model, tokenizer.ok() ? (*tokenizer)->num_template_tokens() : 0);
}

}  // namespace

void ListModelsCall::Start() {
  v1::ListModelsResponse response;
  for (const ModelInfo& model : services().models.models()) {
    *response.add_models() = Describe(services(), model);
  }
  Reply(response);
}

void GetModelCall::Start(const grpc::ByteBuffer& buffer) {
  v1::GetModelRequest request;
  const absl::Status parsed = state().Parse(buffer, request);
  if (!parsed.ok()) return Fail(parsed);
  const ModelInfo* model = services().models.Find(request.name());
  if (model == nullptr) {
    return Fail(absl::NotFoundError(fmt::format("there is no model '{}'; models: {}{}",
                                                Shorten(request.name()), services().models.Names(),
                                                services().models.Suggestion(request.name()))));
  }
  Reply(Describe(services(), *model));
}

}  // namespace beamline
