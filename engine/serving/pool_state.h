// Which replicas of a pool can answer, which of them gets a request, and when one that has failed
// is loaded once more. Pure: no clock, device or thread, so that a simulator runs it through
// thousands of schedules (tests/engine/serving/pool_simulator_test.cc).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/api/model.h"
#include "engine/serving/restart_policy.h"
#include "engine/serving/router.h"

namespace beamline {

// Not thread safe.
class PoolState {
 public:
  using Time = std::chrono::steady_clock::time_point;

  PoolState(int num_replicas, uint64_t seed, const RestartPolicy& policy)
      : policy_(policy),
        router_(num_replicas, seed),
        replicas_(static_cast<size_t>(num_replicas)) {}

  int size() const { return static_cast<int>(replicas_.size()); }
  ReplicaPhase phase(int replica) const { return At(replica).phase; }
  int32_t restarts(int replica) const { return At(replica).restarts; }
  int num_up() const;
  // Some replica can answer, or will without anybody's doing.
  bool has_future() const;
  // When a failed replica is to be loaded once more; nullopt: it is not.
  std::optional<Time> restart_at(int replica) const { return At(replica).restart_at; }
  // Of all of them the one that is to be loaded first.
  std::optional<int> NextRestart() const;

  // `views`: can_answer is what this says. Nullopt when none can answer.
  std::optional<int> Choose(std::vector<ReplicaView>& views, std::span<const Beginning> beginnings);

  // Its device has failed. `may_restart`: another load on it may succeed. `has_worked`: it had
  // computed something since its load, so that this failure begins a row of its own.
  void Fail(int replica, bool may_restart, bool has_worked, Time now);
  // No new request gets it. REQUIRES: it is up.
  void BeginDrain(int replica) { At(replica).phase = ReplicaPhase::kDraining; }
  // It is being loaded once more.
  void BeginRestart(int replica);
  void EndRestart(int replica, bool succeeded, bool may_restart, Time now);

 private:
  struct Replica {
    ReplicaPhase phase = ReplicaPhase::kUp;
    int32_t restarts = 0;
    int failures = 0;  // in a row
    std::optional<Time> restart_at;
  };

  Replica& At(int replica) { return replicas_[static_cast<size_t>(replica)]; }
  const Replica& At(int replica) const { return replicas_[static_cast<size_t>(replica)]; }
  void CountFailure(Replica& replica, bool may_restart, Time now);

  const RestartPolicy policy_;
  Router router_;
  std::vector<Replica> replicas_;
};

}  // namespace beamline
