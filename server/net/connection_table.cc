#include "server/net/connection_table.h"

#include <algorithm>
#include <iterator>

#include "base/shared_limit.h"

namespace beamline {
namespace {

// A connection that is asked whether it is idle costs some 0.1 us.
constexpr int kMostLooks = 64;

}  // namespace

bool ConnectionTable::IsFullFor(const std::string& peer) const {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) return false;
  const int64_t own = it->second.num_connections;
  // Where all places are taken, the one that a client with few gets is another client's.
  const auto taken = std::min<int64_t>(static_cast<int64_t>(connections_.size()), limit_ - 1);
  const SharedLimit places{limit_, taken, own, static_cast<int64_t>(peers_.size())};
  return own >= peer_limit_ || !places.HasRoom();
}

void ConnectionTable::Add(int fd, const std::string& peer, TimePoint deadline) {
  Remove(fd);
  silent_.push_back(fd);
  connections_[fd] = {.peer = peer, .deadline = deadline, .place = std::prev(silent_.end())};
  Peer& counts = peers_[peer];
  ++counts.num_connections;
  ++counts.num_silent;
}

void ConnectionTable::HandOver(int fd, uint64_t identity, std::optional<TimePoint> deadline) {
  const auto it = connections_.find(fd);
  if (it == connections_.end()) return;
  EndSilence(it->second);
  it->second.identity = identity;
  if (deadline.has_value()) it->second.deadline = *deadline;
  spoken_.push_back(fd);
  it->second.spoken_place = std::prev(spoken_.end());
}

void ConnectionTable::SetReady(int fd) {
  ready_.push_back(fd);
  connections_.at(fd).ready_place = std::prev(ready_.end());
}

void ConnectionTable::Remove(int fd) {
  const auto it = connections_.find(fd);
  if (it == connections_.end()) return;
  Forget(it->second);
  connections_.erase(it);
}

void ConnectionTable::RemoveClosed(const std::function<bool(int, uint64_t)>& is_open) {
  absl::erase_if(connections_, [&](auto& entry) {
    Connection& connection = entry.second;
    if (connection.place.has_value() || is_open(entry.first, connection.identity)) return false;
    Forget(connection);
    return true;
  });
}

bool ConnectionTable::IsSilent(int fd) const {
  const auto it = connections_.find(fd);
  return it != connections_.end() && it->second.place.has_value();
}

bool ConnectionTable::IsReady(int fd) const {
  const auto it = connections_.find(fd);
  return it != connections_.end() && it->second.ready_place.has_value();
}

std::optional<int> ConnectionTable::OldestSilent() const {
  if (silent_.empty()) return std::nullopt;
  return silent_.front();
}

std::optional<int> ConnectionTable::OldestSilentOf(const std::string& peer) const {
  const auto counts = peers_.find(peer);
  if (counts == peers_.end() || counts->second.num_silent == 0) return std::nullopt;
  return *std::find_if(silent_.begin(), silent_.end(),
                       [&](int fd) { return connections_.at(fd).peer == peer; });
}

std::optional<int> ConnectionTable::OldestIdle(const std::string* peer,
                                               const std::function<bool(int)>& is_idle) {
  int num_looks = 0;
  const auto end = spoken_.end();
  std::list<int> busy;
  std::optional<int> found;
  for (auto it = spoken_.begin(); it != end && num_looks < kMostLooks && !found.has_value();) {
    const auto next = std::next(it);
    if (peer == nullptr || connections_.at(*it).peer == *peer) {
      ++num_looks;
      if (is_idle(*it)) {
        found = *it;
      } else {
        busy.splice(busy.end(), spoken_, it);
      }
    }
    it = next;
  }
  spoken_.splice(spoken_.end(), busy);
  return found;
}

std::optional<ConnectionTable::TimePoint> ConnectionTable::NextDeadline() const {
  if (silent_.empty()) return std::nullopt;
  return connections_.at(silent_.front()).deadline;
}

void ConnectionTable::EndSilence(Connection& connection) {
  if (!connection.place.has_value()) return;
  silent_.erase(*connection.place);
  connection.place.reset();
  if (connection.ready_place.has_value()) ready_.erase(*connection.ready_place);
  connection.ready_place.reset();
  --peers_.at(connection.peer).num_silent;
}

void ConnectionTable::Forget(Connection& connection) {
  EndSilence(connection);
  if (connection.spoken_place.has_value()) spoken_.erase(*connection.spoken_place);
  const auto counts = peers_.find(connection.peer);
  if (--counts->second.num_connections == 0) peers_.erase(counts);
}

}  // namespace beamline
