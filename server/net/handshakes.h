// The connections in TLS whose handshake is not finished: somebody else has them, and each takes
// some 70 KiB of memory from the begin of its handshake on. Bounded in all and of each peer; an old
// one gives its place to a new one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/guard/peer_floods.h"
#include "server/guard/tls_watch.h"
#include "server/net/connection_stats.h"
#include "server/net/owed_for.h"

namespace beamline {

// Any thread. Held by a std::shared_ptr, which handshakes share.
class Handshakes : public std::enable_shared_from_this<Handshakes> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // For this time an unfinished handshake keeps its place. For the shorter one where its client
  // owes its part, and others of its peer have lost their places lately: clients that connect all
  // at once are slow too, but finish.
  static constexpr std::chrono::milliseconds kLeastTime{2000};
  static constexpr std::chrono::milliseconds kLeastOwed{500};
  // Between looks for one that owes, after a look that has found none. A look at a connection
  // costs some 1 us.
  static constexpr std::chrono::milliseconds kLookInterval{20};

  // `limit` (>= 1) at once, of one peer a quarter of them, and the last ones for peers that have
  // few (SharedLimit). `stats`, which counts those that gave their place, outlives the last call of
  // FindPlace. `owed_for` tells what OwedFor does.
  using Owed = std::function<std::optional<std::chrono::milliseconds>(int fd)>;
  Handshakes(int32_t limit, ConnectionStats& stats, Owed owed_for = OwedFor)
      : limit_(static_cast<size_t>(limit)),
        peer_limit_(limit_ < 4 ? limit_ : limit_ / 4),
        stats_(stats),
        owed_for_(std::move(owed_for)) {}

  // Whether the peer's next connection may begin its handshake. Where there is no place for it the
  // oldest of them that has had its time, of its peer where that has all it may, is shut down.
  bool FindPlace(const std::string& peer, TimePoint now);
  bool HasAnyOf(const std::string& peer) const;
  size_t size() const;

  // One of them begins: of the connection `fd`, a socket of this inode. It ends when what is
  // returned goes. `flood` may be null.
  std::unique_ptr<TlsHandshake> Begin(int fd, uint64_t identity, const std::string& peer,
                                      TimePoint now, std::shared_ptr<PeerFlood> flood = nullptr);

 private:
  class Handshake;
  struct Entry {
    uint64_t identity = 0;
    int fd = -1;
    std::string peer;
    TimePoint begin;
  };
  struct Peer {
    size_t num_handshakes = 0;
    TimePoint next_look;
    RateBucket displaced;
  };

  bool IsFullFor(const std::string& peer) const;  // REQUIRES: mutex_
  // The one that gives its place: of `peer`, null: of all. REQUIRES: mutex_, and that there is one.
  std::list<Entry>::iterator NextToGo(const std::string* peer, TimePoint now);
  // Whether a quarter of its places' number have been taken from it, within some seconds.
  bool GivesUpMany(const std::string& peer, TimePoint now);  // REQUIRES: mutex_, and it has any
  double DisplacedPerSecond() const { return static_cast<double>(peer_limit_) / 16; }
  void End(uint64_t identity);
  void Remove(std::list<Entry>::iterator entry);

  const size_t limit_;
  const size_t peer_limit_;
  ConnectionStats& stats_;
  const Owed owed_for_;
  mutable std::mutex mutex_;
  // All of this is guarded by mutex_.
  std::list<Entry> entries_;  // in the order of their begin
  absl::flat_hash_map<uint64_t, std::list<Entry>::iterator> by_identity_;
  absl::flat_hash_map<std::string, Peer> peers_;  // those with any
  TimePoint next_look_;                           // of all
};

// The socket's inode, which no other open socket has; 0: `fd` is no socket.
uint64_t SocketIdentity(int fd);

}  // namespace beamline
