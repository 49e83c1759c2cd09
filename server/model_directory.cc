#include "server/model_directory.h"

#include <algorithm>

#include "base/field_error.h"
#include "base/text.h"
#include "fmt/format.h"

namespace beamline {
namespace {

bool Suits(const ModelInfo& model, ModelDirectory::Use use) {
  switch (use) {
    case ModelDirectory::Use::kAny:
      return true;
    case ModelDirectory::Use::kGenerate:
    case ModelDirectory::Use::kScore:
      return model.task != ModelTask::kEncode;
    case ModelDirectory::Use::kEncode:
      return model.task == ModelTask::kEncode;
  }
  return false;
}

std::string_view Verb(ModelDirectory::Use use) {
  switch (use) {
    case ModelDirectory::Use::kEncode:
      return "encode";
    case ModelDirectory::Use::kScore:
      return "score";
    default:
      return "generate";
  }
}

}  // namespace

const ModelInfo* ModelDirectory::Find(std::string_view name) const {
  const auto it = std::find_if(models_.begin(), models_.end(),
                               [name](const ModelInfo& model) { return model.name == name; });
  return it == models_.end() ? nullptr : &*it;
}

std::string ModelDirectory::Names(Use use) const {
  std::string names;
  for (const ModelInfo& model : models_) {
    if (Suits(model, use)) names += (names.empty() ? "" : ", ") + model.name;
  }
  return names.empty() ? "none" : names;
}

std::string ModelDirectory::Suggestion(std::string_view name) const {
  std::vector<std::string> names;
  for (const ModelInfo& model : models_) names.push_back(model.name);
  return DidYouMean(name, names);
}

absl::StatusOr<const ModelInfo*> ModelDirectory::Resolve(std::string_view name, Use use) const {
  if (name.empty()) {
    const ModelInfo* only = nullptr;
    for (const ModelInfo& model : models_) {
      if (!Suits(model, use)) continue;
      if (only != nullptr) {
        return FieldError("model", "empty", Names(use));
      }
      only = &model;
    }
    if (only != nullptr) return only;
    return FieldError(
        {.field = "model",
         .value = "empty",
         .text = fmt::format("model is empty, and this server has none that can {}", Verb(use))});
  }
  const ModelInfo* model = Find(name);
  if (model == nullptr) {
    return FieldError("model", fmt::format("'{}'", Shorten(name)), Names(use) + Suggestion(name));
  }
  if (!Suits(*model, use)) {
    return FieldError(
        "model", fmt::format("'{}', a {}, which cannot {}", name, model->architecture, Verb(use)),
        Names(use));
  }
  return model;
}

}  // namespace beamline
