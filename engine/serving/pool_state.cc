#include "engine/serving/pool_state.h"

#include <algorithm>

namespace beamline {

int PoolState::num_up() const {
  return static_cast<int>(std::ranges::count(replicas_, ReplicaPhase::kUp, &Replica::phase));
}

bool PoolState::has_future() const {
  return std::ranges::any_of(replicas_, [](const Replica& replica) {
    return replica.phase != ReplicaPhase::kFailed || replica.restart_at.has_value();
  });
}

std::optional<int> PoolState::NextRestart() const {
  std::optional<int> next;
  for (int i = 0; i < size(); ++i) {
    if (!At(i).restart_at.has_value()) continue;
    if (!next.has_value() || *At(i).restart_at < *At(*next).restart_at) next = i;
  }
  return next;
}

std::optional<int> PoolState::Choose(std::vector<ReplicaView>& views,
                                     std::span<const Beginning> beginnings) {
  for (int i = 0; i < size(); ++i) {
    views[static_cast<size_t>(i)].can_answer = At(i).phase == ReplicaPhase::kUp;
  }
  return router_.Choose(views, beginnings);
}

void PoolState::CountFailure(Replica& replica, bool may_restart, Time now) {
  ++replica.failures;
  replica.phase = ReplicaPhase::kFailed;
  replica.restart_at.reset();
  if (!may_restart) return;
  if (const auto wait = policy_.Wait(replica.failures)) replica.restart_at = now + *wait;
}

void PoolState::Fail(int replica, bool may_restart, bool has_worked, Time now) {
  router_.Forget(replica);
  if (has_worked) At(replica).failures = 0;
  CountFailure(At(replica), may_restart, now);
}

void PoolState::BeginRestart(int replica) {
  router_.Forget(replica);
  At(replica).phase = ReplicaPhase::kRestarting;
  At(replica).restart_at.reset();
}

void PoolState::EndRestart(int replica, bool succeeded, bool may_restart, Time now) {
  Replica& it = At(replica);
  if (!succeeded) return CountFailure(it, may_restart, now);
  it.phase = ReplicaPhase::kUp;
  ++it.restarts;
}

}  // namespace beamline
