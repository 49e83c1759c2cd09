// Models that come and go: what loads them into the registry and takes them out of it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/serving/registry.h"

namespace beamline {

// Any thread.
class Lifecycle {
 public:
  // The registry and the observer, which may be null, outlive it.
  Lifecycle(const EngineOptions& options, EngineObserver* observer, Registry& registry)
      : options_(options), observer_(observer), registry_(registry) {}

  // Loads the engine's own models, one behind the other, whatever memory is free. Errors are those
  // of Engine::Create.
  absl::Status LoadConfigured();
  // As Engine's functions.
  absl::StatusOr<ModelInfo> Load(const ModelOptions& options);
  absl::StatusOr<ModelInfo> Unload(const std::string& name, int32_t version,
                                   std::chrono::milliseconds grace);

  absl::StatusOr<ModelInfo> RestartReplica(const std::string& name, int32_t version,
                                           int32_t replica, std::chrono::milliseconds grace);

  // Loads end as soon as can be, and later ones at once, with UNAVAILABLE.
  void StopLoads();
  // Unloads wait for requests no more.
  void StopWaiting() { stop_waiting_ = true; }

 private:
  // How a replica is loaded.
  struct LoadWay {
    std::span<const ModelOptions> later_models = {};  // of the engine's own, while it starts
    bool is_configured = false;                       // one of the engine's own
    bool is_alone = true;                             // the only replica of its model
    bool is_again = false;                            // instead of one that was there
    int64_t promised_bytes = 0;                       // as Registry::PromisedHostBytes, of those
                                                      // that were loaded with it
  };

  absl::StatusOr<Registry::Pool> LoadPool(const ModelOptions& options);
  // Whether the ranks of the model are processes.
  bool HasProcesses(const ModelOptions& options, const LoadWay& way) const;
  absl::StatusOr<Registry::Pool> MakePool(const ModelOptions& options, const LoadWay& way);
  absl::StatusOr<std::unique_ptr<LoadedModel>> LoadReplica(const ModelOptions& options,
                                                           const CpuShare& cpu, const LoadWay& way);
  LoadContext ContextOf(const std::string& model) const;
  absl::Status Admit(const MemoryPlan& plan, const Backend& backend, int64_t promised_bytes) const;
  void WaitForRequests(ReplicaPool& pool, std::chrono::steady_clock::time_point deadline) const;

  const EngineOptions options_;
  EngineObserver* const observer_;
  Registry& registry_;
  // One load at a time: each sees the memory that the last one left, and requests to other models
  // keep the other cores.
  std::mutex loading_;
  std::atomic<bool> stop_loads_ = false;
  std::atomic<bool> stop_waiting_ = false;
};

}  // namespace beamline
