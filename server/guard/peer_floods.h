// Limits of what one address costs over all of its connections. FrameWatch bounds a connection
// alone, and a client that opens a new one for every few hundred calls passes it.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace beamline {

// Calls that a client may take back for each that it has had answered: nine of ten may be hedges,
// or belong to users who left.
inline constexpr double kResetsPerAnswer = 10;

// A leaky bucket. Its level is below 0 while more has been earned than counted. Not thread safe.
class RateBucket {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // In this time what has been earned and not used shrinks to a third (1/e): a fixed share, so that
  // the sum over an address's connections shrinks as each of them does.
  static constexpr std::chrono::seconds kEarnedFor{10};

  // Counts one. False, and nothing counted, above `most` at once and `per_second` from there on.
  bool Add(TimePoint now, double most, double per_second) {
    Leak(now, per_second);
    if (level_ + 1 > most) return false;
    ++level_;
    return true;
  }
  // Makes room for `count` more, of at most `most_earned` at once beside the limits of Add.
  void Earn(TimePoint now, double count, double most_earned, double per_second) {
    Leak(now, per_second);
    level_ = std::max(level_ - count, std::min(level_, -most_earned));
  }
  bool HasRoom(TimePoint now, double most, double per_second) {
    Leak(now, per_second);
    return level_ + 1 <= most;
  }
  bool IsEmpty(TimePoint now, double per_second) {
    Leak(now, per_second);
    return level_ == 0;
  }
  // Takes one back that was counted.
  void TakeBack() { level_ = std::min(level_, std::max(level_ - 1, 0.0)); }
  double level() const { return level_; }  // at the last call

 private:
  void Leak(TimePoint now, double per_second);

  double level_ = 0;
  TimePoint since_;
};

// One address: an IPv4 address or a /64 of IPv6 (PeerKey). Any thread.
class PeerFlood {
 public:
  using TimePoint = RateBucket::TimePoint;

  // Four times what one connection may, as a proxy has several.
  static constexpr double kMostResets = 2000;
  static constexpr double kResetsPerSecond = 800;
  // The same of those that answers on their own connections have earned (connection_flood.h).
  static constexpr double kMostEarnedResets = 8000;
  // Each connection that behaves well sends two of them.
  static constexpr double kMostIdleFrames = 8000;
  static constexpr double kIdleFramesPerSecond = 4000;
  // Connections that are handed over: half of max_connections_per_peer may come back at once.
  static constexpr double kMostConnections = 2048;
  static constexpr double kConnectionsPerSecond = 512;
  // The same of an address that has flooded within the last kRemembered.
  static constexpr double kMostConnectionsOfFlooder = 64;
  static constexpr double kConnectionsOfFlooderPerSecond = 64;
  static constexpr std::chrono::seconds kRemembered{10};
  // Handshakes of TLS that begin and are not finished: each costs a signature.
  static constexpr double kMostHandshakes = 512;
  static constexpr double kHandshakesPerSecond = 256;

  // Count one. False: the address has sent more than it may, and so floods. `is_earned`: answers on
  // its connection have earned it, so it does not count while such answers have earned enough in
  // all.
  bool AddReset(TimePoint now, bool is_earned = false);
  bool AddIdleFrame(TimePoint now);
  // A call was answered over one of its connections.
  void AddAnswer(TimePoint now);

  // Whether its next connection may be handed over now; Open counts it.
  bool MayOpen(TimePoint now);
  void Open(TimePoint now);

  // The same of a handshake of TLS. One that is finished counts no longer.
  bool MayBeginHandshake(TimePoint now);
  void BeginHandshake(TimePoint now);
  void FinishHandshake();

  // Whether a new object would say the same.
  bool IsOver(TimePoint now);

 private:
  bool IsFlooding(TimePoint now) const { return now < flooding_until_; }

  std::mutex mutex_;
  // All of this is guarded by mutex_.
  RateBucket resets_, earned_resets_, idle_frames_;
  RateBucket connections_, connections_of_flooder_, handshakes_;
  TimePoint flooding_until_;
};

// Those of all addresses that have any. Not thread safe.
class PeerFloods {
 public:
  std::shared_ptr<PeerFlood> Of(const std::string& peer);
  // Forgets the addresses that nothing is held against and no connection belongs to.
  void Forget(PeerFlood::TimePoint now);
  size_t size() const { return peers_.size(); }

 private:
  absl::flat_hash_map<std::string, std::shared_ptr<PeerFlood>> peers_;
};

}  // namespace beamline
