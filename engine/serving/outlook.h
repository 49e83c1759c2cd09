// What a request has before it when it comes, and whether its deadline leaves time for that
// (docs/decisions/0026-admission.md). Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace beamline {

// Of a request that comes now.
struct Outlook {
  // Of the cost that waits, what has its turn before it.
  int64_t cost_ahead = 0;
  // What comes later and still has its turn before it.
  int64_t cost_to_come = 0;
  // The cost that all replicas serve in a second; nullopt: not known of one of them, which may
  // have room.
  std::optional<double> cost_per_second;
  // From its first step until its answer is of use; 0: not known.
  double service_seconds = 0;
  // The same of longer requests that were refused lately (RefusedLength); 0: of none.
  double longer_seconds = 0;
  // No request had to wait lately: cost_per_second is what steps let expect.
  bool rate_is_expected = false;

  // Until its first step; nullopt: not known.
  std::optional<double> queue_seconds() const {
    if (cost_ahead <= 0) return 0;
    if (!cost_per_second.has_value()) return std::nullopt;
    return static_cast<double>(cost_ahead + cost_to_come) / *cost_per_second;
  }
  // What it must leave of its deadline behind its turn: its own time, and that of longer ones,
  // which would else find no room where it does.
  double reserved_seconds(double left) const {
    return std::max(service_seconds, std::min(longer_seconds, kReserved * left));
  }
  // Whether it may be answered in `left` seconds. Who finds nobody before it always may, so that
  // requests come through whatever the estimate is, and correct it.
  bool Meets(double left) const {
    const std::optional<double> queue = queue_seconds();
    if (cost_ahead <= 0 || !queue.has_value()) return true;
    // What waits for no more than the next steps is no queue.
    if (rate_is_expected && *queue <= kNoQueue * left) return true;
    return *queue + reserved_seconds(left) <= kShare * left;
  }
  // Seconds until one like it would be accepted, as far as nobody else comes.
  double RetryAfter(double left) const {
    return std::clamp(queue_seconds().value_or(0) + reserved_seconds(left) - kShare * left,
                      kLeastRetry, kMostRetry);
  }

  // Of a deadline's time what the estimate may fill: the rest is for its error.
  static constexpr double kShare = 0.8;
  // And of it what is kept for longer requests at most.
  static constexpr double kReserved = 0.6;
  static constexpr double kNoQueue = 0.1;
  static constexpr double kLeastRetry = 0.02;
  static constexpr double kMostRetry = 60;
};

}  // namespace beamline
