#include "server/guard/peer_floods.h"

#include <algorithm>
#include <cmath>

namespace beamline {

void RateBucket::Leak(TimePoint now, double per_second) {
  const double passed = std::chrono::duration<double>(now - since_).count();
  // Threads read the clock before they take their turn here.
  if (passed <= 0) return;
  since_ = now;
  if (level_ >= 0) {
    level_ = std::max(0.0, level_ - passed * per_second);
    return;
  }
  level_ *= std::exp(-passed / std::chrono::duration<double>(kEarnedFor).count());
  if (level_ > -0.5) level_ = 0;  // not enough for one
}

bool PeerFlood::AddReset(TimePoint now, bool is_earned) {
  std::lock_guard lock(mutex_);
  if (is_earned && earned_resets_.Add(now, 0, 0)) return true;
  if (resets_.Add(now, kMostResets, kResetsPerSecond)) return true;
  flooding_until_ = now + kRemembered;
  return false;
}

bool PeerFlood::AddIdleFrame(TimePoint now) {
  std::lock_guard lock(mutex_);
  if (idle_frames_.Add(now, kMostIdleFrames, kIdleFramesPerSecond)) return true;
  flooding_until_ = now + kRemembered;
  return false;
}

void PeerFlood::AddAnswer(TimePoint now) {
  std::lock_guard lock(mutex_);
  earned_resets_.Earn(now, kResetsPerAnswer, kMostEarnedResets, 0);
}

bool PeerFlood::MayOpen(TimePoint now) {
  std::lock_guard lock(mutex_);
  return connections_.HasRoom(now, kMostConnections, kConnectionsPerSecond) &&
         (!IsFlooding(now) || connections_of_flooder_.HasRoom(now, kMostConnectionsOfFlooder,
                                                              kConnectionsOfFlooderPerSecond));
}

void PeerFlood::Open(TimePoint now) {
  std::lock_guard lock(mutex_);
  connections_.Add(now, kMostConnections, kConnectionsPerSecond);
  // Also of an address that does not flood yet, so that its flood begins with few.
  connections_of_flooder_.Add(now, kMostConnectionsOfFlooder, kConnectionsOfFlooderPerSecond);
}

bool PeerFlood::MayBeginHandshake(TimePoint now) {
  std::lock_guard lock(mutex_);
  return handshakes_.HasRoom(now, kMostHandshakes, kHandshakesPerSecond);
}

void PeerFlood::BeginHandshake(TimePoint now) {
  std::lock_guard lock(mutex_);
  handshakes_.Add(now, kMostHandshakes, kHandshakesPerSecond);
}

void PeerFlood::FinishHandshake() {
  std::lock_guard lock(mutex_);
  handshakes_.TakeBack();
}

bool PeerFlood::IsOver(TimePoint now) {
  std::lock_guard lock(mutex_);
  return !IsFlooding(now) && resets_.IsEmpty(now, kResetsPerSecond) &&
         earned_resets_.IsEmpty(now, 0) && idle_frames_.IsEmpty(now, kIdleFramesPerSecond) &&
         connections_.IsEmpty(now, kConnectionsPerSecond) &&
         connections_of_flooder_.IsEmpty(now, kConnectionsOfFlooderPerSecond) &&
         handshakes_.IsEmpty(now, kHandshakesPerSecond);
}

std::shared_ptr<PeerFlood> PeerFloods::Of(const std::string& peer) {
  std::shared_ptr<PeerFlood>& flood = peers_[peer];
  if (flood == nullptr) flood = std::make_shared<PeerFlood>();
  return flood;
}

void PeerFloods::Forget(PeerFlood::TimePoint now) {
  absl::erase_if(peers_, [now](const auto& entry) {
    return entry.second.use_count() == 1 && entry.second->IsOver(now);
  });
}

}  // namespace beamline
