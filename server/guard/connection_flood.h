// Limits of what the client of one connection may send without getting anything answered, and what
// its answered calls add to them. Frames that a watch follows are counted here (frame_watch.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "server/guard/peer_floods.h"

namespace beamline {

// Any thread: one receives, others answer calls.
class ConnectionFlood {
 public:
  using TimePoint = RateBucket::TimePoint;

  // Calls that the client takes back a second or two after their start at the latest: at once, and
  // a second. Envoy closes a connection at 500 of them.
  static constexpr double kMostResets = 500;
  static constexpr double kResetsPerSecond = 200;
  // Beside these, kResetsPerAnswer for each call that was answered over the connection, of which
  // the client may save this many. A flood has no answers: they come only as fast as the server
  // computes them, so taken-back calls cannot pile up in gRPC.
  static constexpr double kMostEarnedResets = 2000;
  // Frames that ask for nothing: SETTINGS, PRIORITY, CONTINUATION and empty DATA.
  static constexpr double kMostIdleFrames = 1000;
  static constexpr double kIdleFramesPerSecond = 200;
  // Of either, what a connection may send though its address has sent more than it may: a client
  // beside one that floods is not ended for a single cancellation.
  static constexpr double kFew = 8;
  static constexpr double kFewPerSecond = 1;

  // Told once, by the thread that receives, what the client floods the connection with. The
  // connection ends afterwards.
  using OnFlood = std::function<void(std::string_view what)>;
  // `peer` counts all connections of the address; null: this one counts alone.
  explicit ConnectionFlood(std::shared_ptr<PeerFlood> peer = nullptr, OnFlood on_flood = nullptr)
      : peer_(std::move(peer)), on_flood_(std::move(on_flood)) {}

  // Which limit one more exceeds.
  enum class Excess : uint8_t { kNone, kConnection, kPeer };
  Excess AddReset(TimePoint now);
  Excess AddIdleFrame(TimePoint now);
  // A call was answered, all of it.
  void AddAnswer(TimePoint now);

  // The connection is about to be ended for this.
  void Report(std::string_view what) const {
    if (on_flood_ != nullptr) on_flood_(what);
  }
  const std::shared_ptr<PeerFlood>& peer() const { return peer_; }

 private:
  const std::shared_ptr<PeerFlood> peer_;
  const OnFlood on_flood_;
  std::mutex mutex_;
  // Guarded by mutex_:
  RateBucket resets_, idle_frames_;
  RateBucket few_resets_, few_idle_frames_;  // those for which the address had no room
};

}  // namespace beamline
