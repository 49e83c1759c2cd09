#include "server/net/handshakes.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/shared_limit.h"

namespace beamline {
class Handshakes::Handshake final : public TlsHandshake {
 public:
  Handshake(std::shared_ptr<Handshakes> all, uint64_t identity, std::shared_ptr<PeerFlood> flood)
      : all_(std::move(all)), identity_(identity), flood_(std::move(flood)) {}
  ~Handshake() override { all_->End(identity_); }
  void SetFinished() override {
    if (flood_ != nullptr) flood_->FinishHandshake();
  }

 private:
  const std::shared_ptr<Handshakes> all_;
  const uint64_t identity_;
  const std::shared_ptr<PeerFlood> flood_;
};

uint64_t SocketIdentity(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

bool Handshakes::FindPlace(const std::string& peer, TimePoint now) {
  std::lock_guard lock(mutex_);
  const bool is_full_for_peer = IsFullFor(peer);
  if (!is_full_for_peer && entries_.size() < limit_) return true;
  const auto goes = NextToGo(is_full_for_peer ? &peer : nullptr, now);
  if (goes == entries_.end()) return false;
  // Whoever has it may have closed it just now, and its number may be another connection's.
  if (SocketIdentity(goes->fd) == goes->identity) {
    shutdown(goes->fd, SHUT_RDWR);  // its owner sees the end and closes it
    stats_.Count(Refusal::kDisplaced);
    peers_.at(goes->peer)
        .displaced.Add(now, static_cast<double>(peer_limit_), DisplacedPerSecond());
  }
  Remove(goes);
  return true;
}

std::list<Handshakes::Entry>::iterator Handshakes::NextToGo(const std::string* peer,
                                                            TimePoint now) {
  const auto oldest =
      peer == nullptr ? entries_.begin() : std::ranges::find(entries_, *peer, &Entry::peer);
  if (now - oldest->begin >= kLeastTime) return oldest;
  TimePoint& next_look = peer == nullptr ? next_look_ : peers_.at(*peer).next_look;
  if (now < next_look) return entries_.end();
  for (auto it = oldest; it != entries_.end() && now - it->begin >= kLeastOwed; ++it) {
    if ((peer != nullptr && it->peer != *peer) || !GivesUpMany(it->peer, now)) continue;
    if (owed_for_(it->fd).value_or(std::chrono::milliseconds(0)) >= kLeastOwed) return it;
  }
  next_look = now + kLookInterval;
  return entries_.end();
}

bool Handshakes::GivesUpMany(const std::string& peer, TimePoint now) {
  const double many = std::max(1.0, static_cast<double>(peer_limit_) / 4);
  return !peers_.at(peer).displaced.HasRoom(now, many, DisplacedPerSecond());
}

bool Handshakes::IsFullFor(const std::string& peer) const {
  const auto of_peer = peers_.find(peer);
  if (of_peer == peers_.end()) return false;
  const auto limit = static_cast<int64_t>(limit_);
  const SharedLimit places{limit, std::min(static_cast<int64_t>(entries_.size()), limit - 1),
                           static_cast<int64_t>(of_peer->second.num_handshakes),
                           static_cast<int64_t>(peers_.size())};
  return of_peer->second.num_handshakes >= peer_limit_ || !places.HasRoom();
}

bool Handshakes::HasAnyOf(const std::string& peer) const {
  std::lock_guard lock(mutex_);
  return peers_.contains(peer);
}

size_t Handshakes::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

void Handshakes::End(uint64_t identity) {
  std::lock_guard lock(mutex_);
  const auto it = by_identity_.find(identity);
  if (it != by_identity_.end()) Remove(it->second);
}

void Handshakes::Remove(std::list<Entry>::iterator entry) {
  const auto of_peer = peers_.find(entry->peer);
  if (--of_peer->second.num_handshakes == 0) peers_.erase(of_peer);
  by_identity_.erase(entry->identity);
  entries_.erase(entry);
}

std::unique_ptr<TlsHandshake> Handshakes::Begin(int fd, uint64_t identity, const std::string& peer,
                                                TimePoint now, std::shared_ptr<PeerFlood> flood) {
  {
    std::lock_guard lock(mutex_);
    // One of this inode is over, and its owner has not said so yet.
    if (const auto it = by_identity_.find(identity); it != by_identity_.end()) Remove(it->second);
    entries_.push_back({identity, fd, peer, now});
    by_identity_[identity] = std::prev(entries_.end());
    ++peers_[peer].num_handshakes;
  }
  if (flood != nullptr) flood->BeginHandshake(now);
  return std::make_unique<Handshake>(shared_from_this(), identity, std::move(flood));
}

}  // namespace beamline
