#include "server/calls/model_directory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "base/field_error.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

bool Suits(const ModelInfo& model, ModelDirectory::Use use) {
  switch (use) {
    case ModelDirectory::Use::kAny:
      return true;
    case ModelDirectory::Use::kGenerate:
    case ModelDirectory::Use::kScore:
      return Generates(model.task);
    case ModelDirectory::Use::kEncode:
      return model.task == ModelTask::kEncode;
    case ModelDirectory::Use::kClassify:
      return model.task == ModelTask::kClassify;
    case ModelDirectory::Use::kRerank:
      return model.task == ModelTask::kClassify || model.reranks;
    case ModelDirectory::Use::kClassifyTokens:
      return model.task == ModelTask::kClassifyTokens;
    case ModelDirectory::Use::kFillMask:
      return !model.mask_token.empty();
  }
  return false;
}

std::string_view Verb(ModelDirectory::Use use) {
  switch (use) {
    case ModelDirectory::Use::kEncode:
      return "encode";
    case ModelDirectory::Use::kClassify:
      return "classify";
    case ModelDirectory::Use::kRerank:
      return "rerank";
    case ModelDirectory::Use::kClassifyTokens:
      return "classify tokens";
    case ModelDirectory::Use::kFillMask:
      return "fill masks";
    case ModelDirectory::Use::kScore:
      return "score";
    default:
      return "generate";
  }
}

// Names of the ready models for this use, each once, in the models' order.
std::vector<std::string> ReadyNames(const std::vector<ModelDirectory::ModelPtr>& models,
                                    ModelDirectory::Use use) {
  std::vector<std::string> names;
  for (const auto& model : models) {
    const bool is_new = std::find(names.begin(), names.end(), model->name) == names.end();
    if (model->state == ModelState::kReady && Suits(*model, use) && is_new) {
      names.push_back(model->name);
    }
  }
  return names;
}

std::string Join(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

absl::Status NotReady(const ModelInfo& model, std::string_view name) {
  absl::Status status = absl::UnavailableError(
      fmt::format("model '{}' is being {}", Shorten(name),
                  model.state == ModelState::kLoading ? "loaded" : "unloaded"));
  status.SetPayload(kModelNotReadyPayload, absl::Cord());
  return status;
}

}  // namespace

void ModelDirectory::Update(std::vector<ModelInfo> models) {
  List list;
  for (ModelInfo& model : models) {
    list.push_back(std::make_shared<const ModelInfo>(std::move(model)));
  }
  auto now = std::make_shared<const List>(std::move(list));
  std::lock_guard lock(mutex_);
  models_ = std::move(now);
}

std::shared_ptr<const ModelDirectory::List> ModelDirectory::Now() const {
  std::lock_guard lock(mutex_);
  return models_;
}

ModelDirectory::ModelPtr ModelDirectory::Find(std::string_view name) const {
  const auto list = Now();
  ModelPtr best;
  for (const ModelPtr& model : *list) {
    if (model->versioned_name == name) return model;
    if (model->name != name) continue;
    const auto rank = [](const ModelInfo& of) {
      return std::pair(of.state == ModelState::kReady, of.version);
    };
    if (best == nullptr || rank(*model) > rank(*best)) best = model;
  }
  return best;
}

std::string ModelDirectory::Names(Use use) const { return Join(ReadyNames(*Now(), use)); }

std::string ModelDirectory::Suggestion(std::string_view name) const {
  return DidYouMean(name, ReadyNames(*Now(), Use::kAny));
}

absl::StatusOr<ModelDirectory::ModelPtr> ModelDirectory::Resolve(std::string_view name,
                                                                 Use use) const {
  if (name.empty()) {
    const std::vector<std::string> names = ReadyNames(*Now(), use);
    if (names.size() > 1) return FieldError("model", "empty", Join(names));
    if (const ModelPtr only = names.empty() ? nullptr : Find(names[0]); only != nullptr) {
      return only;
    }
    return FieldError(
        {.field = "model",
         .value = "empty",
         .text = fmt::format("model is empty, and this server has none that can {}", Verb(use))});
  }
  ModelPtr model = Find(name);
  if (model == nullptr || model->state == ModelState::kFailed) {
    return FieldError("model", fmt::format("'{}'", Shorten(name)), Names(use) + Suggestion(name));
  }
  if (model->state != ModelState::kReady) return NotReady(*model, name);
  if (!Suits(*model, use)) {
    return FieldError(
        "model",
        fmt::format("'{}', a {}, which cannot {}{}", name, model->architecture, Verb(use),
                    use == Use::kRerank && Generates(model->task)
                        ? " without the settings rerank_template and rerank_tokens"
                        : ""),
        Names(use));
  }
  return model;
}

}  // namespace beamline
