// The open connections of a server: how many there are, of whom, and which of them have not said
// anything yet. Knows no sockets, only their numbers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace beamline {

// Not thread safe.
class ConnectionTable {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Limits of all connections and of those of one peer.
  ConnectionTable(int32_t limit, int32_t peer_limit) : limit_(limit), peer_limit_(peer_limit) {}

  // Whether `peer` has as many connections as it may: its limit, or where few places are left as
  // many as leave these to peers that have few (SharedLimit).
  bool IsFullFor(const std::string& peer) const;
  bool full() const { return connections_.size() >= static_cast<size_t>(limit_); }
  int32_t limit() const { return limit_; }

  // A new connection, silent until `deadline`. A descriptor that is known already has been closed
  // by whoever had it, and is the new connection's now.
  void Add(int fd, const std::string& peer, TimePoint deadline);
  // A silent connection has spoken, and belongs to somebody else now. `identity` tells it from
  // whatever gets the same number later. `deadline`: its new one, as it begins anew; else the old
  // one.
  void HandOver(int fd, uint64_t identity, std::optional<TimePoint> deadline = std::nullopt);
  // A silent connection has spoken, and waits to be handed over; silent otherwise. Once.
  void SetReady(int fd);
  // No effect on one that is not there.
  void Remove(int fd);
  // Removes those handed over of which `is_open(fd, identity)` is false.
  void RemoveClosed(const std::function<bool(int, uint64_t)>& is_open);

  bool IsSilent(int fd) const;
  bool IsReady(int fd) const;
  // REQUIRES: `fd` is there.
  const std::string& PeerOf(int fd) const { return connections_.at(fd).peer; }
  // The silent connection that has been there the longest: of all, or of a peer.
  std::optional<int> OldestSilent() const;
  std::optional<int> OldestSilentOf(const std::string& peer) const;
  // The handed over connection that has been there the longest of those for which `is_idle` is
  // true: of all, or of a peer. Of very many that are not idle the longest there are looked at;
  // their turn comes again when the others have had theirs.
  std::optional<int> OldestIdle(const std::string* peer, const std::function<bool(int)>& is_idle);
  // REQUIRES: `fd` is there.
  TimePoint DeadlineOf(int fd) const { return connections_.at(fd).deadline; }
  uint64_t IdentityOf(int fd) const { return connections_.at(fd).identity; }
  // The deadline of OldestSilent(). Deadlines are given in ascending order.
  std::optional<TimePoint> NextDeadline() const;
  const std::list<int>& silent() const { return silent_; }
  const std::list<int>& ready() const { return ready_; }  // the longest first
  size_t num_handed_over() const { return connections_.size() - silent_.size(); }
  int32_t num_of(const std::string& peer) const {
    const auto it = peers_.find(peer);
    return it == peers_.end() ? 0 : it->second.num_connections;
  }
  size_t num_peers() const { return peers_.size(); }

 private:
  struct Connection {
    std::string peer;
    TimePoint deadline;
    uint64_t identity = 0;
    std::optional<std::list<int>::iterator> place;         // in silent_, while it is
    std::optional<std::list<int>::iterator> spoken_place;  // in spoken_, once it is
    std::optional<std::list<int>::iterator> ready_place;   // in ready_, while it is
  };
  struct Peer {
    int32_t num_connections = 0;
    int32_t num_silent = 0;
  };

  void EndSilence(Connection& connection);
  void Forget(Connection& connection);

  const int32_t limit_;
  const int32_t peer_limit_;
  absl::flat_hash_map<int, Connection> connections_;  // by descriptor
  absl::flat_hash_map<std::string, Peer> peers_;      // those with a connection
  std::list<int> silent_;                             // in the order of their arrival
  std::list<int> spoken_;  // those handed over, in the order of their turn
  std::list<int> ready_;   // in the order in which they spoke
};

}  // namespace beamline
