#include "server/calls/model_calls.h"

#include "base/build_info.h"
#include "base/text.h"
#include "engine/text/tokenizer.h"
#include "fmt/format.h"
#include "server/wire/response.h"

namespace beamline {
v1::Model ToMessage(ServiceContext& services, const ModelInfo& model) {
  const auto tokenizer = services.engine.FindTokenizer(model.versioned_name);
  return ToMessage(model, tokenizer.ok() ? (*tokenizer)->num_template_tokens() : 0);
}

void ListModelsCall::Start() {
  v1::ListModelsResponse response;
  for (const auto& model : services().models.models()) {
    *response.add_models() = ToMessage(services(), *model);
  }
  const BuildInfo& build = ThisBuild();
  response.set_server_version(fmt::format("{} ({})", build.version, build.revision));
  Reply(response);
}

void GetModelCall::Start(const grpc::ByteBuffer& buffer) {
  v1::GetModelRequest request;
  const absl::Status parsed = state().Parse(buffer, request);
  if (!parsed.ok()) return Fail(parsed);
  const auto model = services().models.Find(request.name());
  if (model == nullptr) {
    return Fail(absl::NotFoundError(fmt::format("there is no model '{}'; models: {}{}",
                                                Shorten(request.name()), services().models.Names(),
                                                services().models.Suggestion(request.name()))));
  }
  Reply(ToMessage(services(), *model));
}

}  // namespace beamline
