// The models that a server has, and which of them a request means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"

namespace beamline {

// Immutable, so thread safe.
class ModelDirectory {
 public:
  enum class Use : uint8_t { kAny, kGenerate, kScore, kEncode };

  explicit ModelDirectory(std::vector<ModelInfo> models) : models_(std::move(models)) {}

  // INVALID_ARGUMENT naming `model` and the suitable models when there is no such model, when it
  // cannot do this, or when the name is empty and not exactly one model can.
  absl::StatusOr<const ModelInfo*> Resolve(std::string_view name, Use use) const;
  // Null when there is none.
  const ModelInfo* Find(std::string_view name) const;
  const std::vector<ModelInfo>& models() const { return models_; }
  // "a, b, c" of those that suit.
  std::string Names(Use use = Use::kAny) const;
  // "; did you mean 'a'?" for a name that none has, or nothing.
  std::string Suggestion(std::string_view name) const;

 private:
  std::vector<ModelInfo> models_;
};

}  // namespace beamline
