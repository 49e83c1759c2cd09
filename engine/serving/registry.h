// The models that an engine has, by name and version, and the states that they go through. It loads
// nothing itself (lifecycle.h does): it knows who is there, finds a replica for a request, and
// tells of changes. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/serving/replica_pool.h"

namespace beamline {

class Registry {
 public:
  using Pool = std::shared_ptr<ReplicaPool>;

  // Requests that still run get CANCELLED.
  ~Registry() { StopAll(); }

  // Of the models that failed to load, so many are kept, the last ones.
  static constexpr size_t kMostFailed = 16;

  // For requests. `model`: as Engine's functions take it; so are the errors.

  absl::StatusOr<Place> Enter(std::string_view model) const;
  // Of one that is being unloaded too.
  absl::StatusOr<std::shared_ptr<const Tokenizer>> FindTokenizer(std::string_view model) const;

  // For whoever looks on.

  // Of a name without a version that is ready: its highest version in any state.
  absl::StatusOr<ModelInfo> Find(std::string_view model) const;
  std::vector<ModelInfo> Models() const;
  absl::StatusOr<ModelStats> Stats(std::string_view model) const;
  std::vector<ReplicaSnapshot> Snapshot(std::chrono::milliseconds patience) const;
  // As Engine::ReturnIdleMemory.
  void ReturnIdleMemory() const;
  // Host memory that replicas may still come to write, beyond what they hold now.
  int64_t PromisedHostBytes() const;
  // Whether all requests that hold a place have given it back by `deadline`.
  bool WaitForAll(std::chrono::steady_clock::time_point deadline) const;
  void OnModelChange(Engine::ModelListener listener);
  void OnFault(Engine::FaultListener listener);
  void OnReplicaChange(Engine::ReplicaListener listener);

  // For whoever loads and unloads.

  // What is there with the same options, waiting for its load to end; or nothing, and the caller
  // loads it and calls EndLoad. Errors are those of Engine::Load.
  absl::StatusOr<std::optional<ModelInfo>> BeginLoad(const ModelOptions& options);
  // Ready or failed; returns what BeginLoad does from now on.
  absl::StatusOr<ModelInfo> EndLoad(const ModelOptions& options, absl::StatusOr<Pool> loaded);
  // What is on its way out: no new request finds it. Without a pool it is gone already.
  struct Leaving {
    ModelInfo info;
    Pool pool;
  };
  absl::StatusOr<Leaving> BeginUnload(const std::string& name, int32_t version);
  // Keeps the counters of this pool, and nothing else of it. REQUIRES: BeginUnload gave it.
  void Retire(const Leaving& leaving);
  void EndUnload(const ModelInfo& info);
  // The replicas of a version that is ready. Errors are those of Engine::RestartReplica.
  absl::StatusOr<Pool> FindPool(const std::string& name, int32_t version) const;
  // Ends all pools.
  void StopAll();
  // Whoever waits in BeginLoad waits no more.
  void Close();

 private:
  struct Entry {
    ModelOptions options;  // as they were asked for
    ModelInfo info;
    absl::Status failure;
    Pool pool;           // null unless it is ready or draining
    uint64_t order = 0;  // of loading
  };
  using Versions = std::map<int32_t, Entry>;

  // All REQUIRE mutex_.
  const Entry* FindEntry(std::string_view model) const;
  Entry* FindExact(const std::string& name, int32_t version);
  absl::StatusOr<const Entry*> FindReady(std::string_view model) const;
  absl::Status NotFound(std::string_view model) const;
  absl::StatusOr<int32_t> ChooseVersion(const std::string& name, int32_t version) const;
  void Erase(const std::string& name, int32_t version);
  void ForgetOldFailures();

  // Carries out a change, which returns what to tell the listener, if anything.
  template <typename Change>
  void Apply(const Change& change);
  void Listen(ReplicaPool& pool) const;  // REQUIRES: telling_
  std::vector<Pool> Pools() const;
  static ModelInfo InfoOf(const Entry& entry);

  std::mutex telling_;               // taken before mutex_; changes are told of in their order
  Engine::ModelListener on_change_;  // guarded by telling_
  Engine::FaultListener on_fault_;   // guarded by telling_
  Engine::ReplicaListener on_replica_change_;  // guarded by telling_

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<std::string, Versions, std::less<>> models_;
  std::map<std::string, ModelStats, std::less<>> retired_;  // what unloaded replicas counted
  uint64_t next_order_ = 0;
  bool closed_ = false;
};

}  // namespace beamline
