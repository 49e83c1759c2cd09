#include "server/telemetry/log/model_log.h"

#include <chrono>
#include <string>

#include "base/text.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

constexpr size_t kMostFolderBytes = 1000;

// The type that the model computes in, and other types for weights and cache if set.
std::string TypesOf(const ModelInfo& model) {
  const DType compute = model.dtype.value_or(DType::kFloat32);
  std::string types = Name(compute);
  if (model.weight_dtype != compute) {
    types += fmt::format(", weights in {}", Name(model.weight_dtype));
  }
  if (model.cache_dtype != compute && model.cache_dtype != DType::kFloat32) {
    types += fmt::format(", cache in {}", Name(model.cache_dtype));
  }
  return types;
}

}  // namespace

void LogReady(const ModelInfo& model) {
  spdlog::info("model '{}' computes in {} on {} ({}): {}", model.name, TypesOf(model), model.device,
               model.device_description, model.device_reason);
  for (const std::string& note : {model.weights_note, model.types_note}) {
    if (!note.empty()) spdlog::info("model '{}': {}", model.name, note);
  }
  for (const std::string& note : model.limit_notes) {
    spdlog::info("model '{}': {}", model.name, note);
  }
  if (model.warm_up.num_steps == 0) return;
  spdlog::info("model '{}' was warmed up: {} steps in {:.2f} s{}", model.name,
               model.warm_up.num_steps,
               std::chrono::duration<double>(model.warm_up.duration).count(),
               model.warm_up.complete ? "" : ", of more that its time did not allow");
}

void LogChange(const ModelInfo& model) {
  switch (model.state) {
    case ModelState::kLoading:
      spdlog::info("model '{}' version {}: loading {}", model.name, model.version,
                   Shorten(model.folder, kMostFolderBytes));
      break;
    case ModelState::kReady:
      spdlog::info("model '{}' version {}: ready", model.name, model.version);
      LogReady(model);
      break;
    case ModelState::kDraining:
      spdlog::info("model '{}' version {}: unloading", model.name, model.version);
      break;
    case ModelState::kFailed:
      spdlog::warn("model '{}' version {}: not loaded: {}", model.name, model.version, model.error);
      break;
    case ModelState::kUnloaded:
      spdlog::info("model '{}' version {}: unloaded", model.name, model.version);
      break;
  }
}

void LogChange(const ReplicaChange& change) {
  const ModelInfo& model = change.model;
  switch (change.phase) {
    case ReplicaPhase::kUp:
      spdlog::info("model '{}' version {}: replica {} answers again", model.name, model.version,
                   change.replica);
      break;
    case ReplicaPhase::kDraining:
      spdlog::info("model '{}' version {}: replica {} finishes what it has, to be restarted",
                   model.name, model.version, change.replica);
      break;
    case ReplicaPhase::kRestarting:
      spdlog::info("model '{}' version {}: loading replica {} anew", model.name, model.version,
                   change.replica);
      break;
    case ReplicaPhase::kFailed:
      // For the last replica an error line gives the reason.
      if (!change.model_can_answer && !change.will_restart) {
        spdlog::warn("model '{}' version {}: replica {} has failed, and no other answers",
                     model.name, model.version, change.replica);
        break;
      }
      spdlog::warn("model '{}' version {}: replica {} has failed, and {}: {}", model.name,
                   model.version, change.replica,
                   change.will_restart
                       ? "will be loaded anew"
                       : "stays so until somebody restarts it, or the process, which a GPU's fault "
                         "that is its context's takes",
                   change.reason);
      break;
  }
}

}  // namespace beamline
