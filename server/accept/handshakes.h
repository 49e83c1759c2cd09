// The connections in TLS whose handshake is not finished: somebody else has them, and each takes
// some 70 KiB of memory from the begin of its handshake on. Bounded in all and of each peer; an old
// one gives its place to a new one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "server/accept/connection_stats.h"

namespace beamline {

// Any thread. Held by a std::shared_ptr, which handshakes share.
class Handshakes : public std::enable_shared_from_this<Handshakes> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // So long nobody takes an unfinished handshake's place.
  static constexpr std::chrono::seconds kLeastTime{2};

  // `limit` (>= 1) at once, of one peer a quarter of them, and the last ones for peers that have
  // few (SharedLimit). `stats`, which counts those that gave their place, outlives the last call of
  // FindPlace.
  Handshakes(int32_t limit, ConnectionStats& stats)
      : limit_(static_cast<size_t>(limit)),
        peer_limit_(limit_ < 4 ? limit_ : limit_ / 4),
        stats_(stats) {}

  // Whether the peer's next connection may begin its handshake. Where there is no place for it the
  // oldest of them, of its peer where that has all it may, is shut down, if it has had its time.
  bool FindPlace(const std::string& peer, TimePoint now);
  bool HasAnyOf(const std::string& peer) const;
  size_t size() const;

  // One of them, from its begin until this goes.
  class Handshake {
   public:
    ~Handshake() { all_->End(identity_); }
    Handshake(const Handshake&) = delete;
    Handshake& operator=(const Handshake&) = delete;

   private:
    friend class Handshakes;
    Handshake(std::shared_ptr<Handshakes> all, uint64_t identity)
        : all_(std::move(all)), identity_(identity) {}
    const std::shared_ptr<Handshakes> all_;
    const uint64_t identity_;
  };

  // While it lives, handshakes that begin on this thread (Claim) are of the connection `fd`, a
  // socket of this inode. One at a time on a thread.
  class HandingOver {
   public:
    HandingOver(Handshakes& all, int fd, uint64_t identity, std::string peer, TimePoint now);
    ~HandingOver();
    HandingOver(const HandingOver&) = delete;
    HandingOver& operator=(const HandingOver&) = delete;

   private:
    friend class Handshakes;
    Handshakes& all_;
    const int fd_;
    const uint64_t identity_;
    const std::string peer_;
    const TimePoint now_;
    bool is_claimed_ = false;
  };
  // Who gets a connection says that its handshake begins. Null: none is handed over on this thread,
  // or it has begun.
  static std::unique_ptr<Handshake> Claim();

 private:
  struct Entry {
    uint64_t identity = 0;
    int fd = -1;
    std::string peer;
    TimePoint begin;
  };

  bool IsFullFor(const std::string& peer) const;  // REQUIRES: mutex_
  void End(uint64_t identity);
  void Remove(std::list<Entry>::iterator entry);

  const size_t limit_;
  const size_t peer_limit_;
  ConnectionStats& stats_;
  mutable std::mutex mutex_;
  // All of this is guarded by mutex_.
  std::list<Entry> entries_;  // in the order of their begin
  absl::flat_hash_map<uint64_t, std::list<Entry>::iterator> by_identity_;
  absl::flat_hash_map<std::string, size_t> peers_;  // those with any
};

// The socket's inode, which no other open socket has; 0: `fd` is no socket.
uint64_t SocketIdentity(int fd);

}  // namespace beamline
