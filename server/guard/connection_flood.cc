#include "server/guard/connection_flood.h"

namespace beamline {

ConnectionFlood::Excess ConnectionFlood::AddReset(TimePoint now) {
  std::lock_guard lock(mutex_);
  const bool has_room = resets_.Add(now, kMostResets, kResetsPerSecond);
  const bool is_earned = has_room && resets_.level() <= 0;
  const bool peer_has_room = peer_ == nullptr || peer_->AddReset(now, is_earned);
  if (!has_room) return Excess::kConnection;
  const bool may = peer_has_room || few_resets_.Add(now, kFew, kFewPerSecond);
  return may ? Excess::kNone : Excess::kPeer;
}

ConnectionFlood::Excess ConnectionFlood::AddIdleFrame(TimePoint now) {
  std::lock_guard lock(mutex_);
  const bool has_room = idle_frames_.Add(now, kMostIdleFrames, kIdleFramesPerSecond);
  const bool peer_has_room = peer_ == nullptr || peer_->AddIdleFrame(now);
  if (!has_room) return Excess::kConnection;
  const bool may = peer_has_room || few_idle_frames_.Add(now, kFew, kFewPerSecond);
  return may ? Excess::kNone : Excess::kPeer;
}

void ConnectionFlood::AddAnswer(TimePoint now) {
  std::lock_guard lock(mutex_);
  resets_.Earn(now, kResetsPerAnswer, kMostEarnedResets, kResetsPerSecond);
  if (peer_ != nullptr) peer_->AddAnswer(now);
}

}  // namespace beamline
