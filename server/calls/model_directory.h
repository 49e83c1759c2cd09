// The models of a server, and the choice of the one for a request.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"

namespace beamline {

// Thread safe. A returned ModelPtr stays valid and unchanged when the model is unloaded.
class ModelDirectory {
 public:
  enum class Use : uint8_t {
    kAny,
    kGenerate,
    kScore,
    kEncode,
    kClassify,
    kRerank,
    kClassifyTokens,
    kFillMask
  };
  using ModelPtr = std::shared_ptr<const ModelInfo>;

  explicit ModelDirectory(std::vector<ModelInfo> models) { Update(std::move(models)); }

  // Replaces the models by these, as Engine::Models returns them.
  void Update(std::vector<ModelInfo> models);

  // The model for `name`: empty, a name or a versioned name, as Engine's functions take it.
  // INVALID_ARGUMENT naming `model` and the suitable models in three cases: there is no such model,
  // it cannot do this, or `name` is empty and not exactly one model can. UNAVAILABLE with
  // kModelNotReadyPayload while the model is loaded or unloaded.
  absl::StatusOr<ModelPtr> Resolve(std::string_view name, Use use) const;
  // The model of this name, in any state. Without a version: the highest ready version, else the
  // highest. Null when there is none.
  ModelPtr Find(std::string_view name) const;
  std::vector<ModelPtr> models() const { return *Now(); }
  // "a, b, c": the ready models for this use.
  std::string Names(Use use = Use::kAny) const;
  // "; did you mean 'a'?" if a ready model has a similar name, else empty.
  std::string Suggestion(std::string_view name) const;

 private:
  using List = std::vector<ModelPtr>;

  std::shared_ptr<const List> Now() const;

  mutable std::mutex mutex_;
  std::shared_ptr<const List> models_;  // guarded by mutex_; the list itself never changes
};

}  // namespace beamline
