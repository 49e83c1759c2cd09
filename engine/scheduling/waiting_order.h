// Who goes first among the requests that wait: by priority, then by fair share, then by arrival.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

#include "engine/api/request.h"

namespace beamline {

struct WaitingRank {
  int32_t priority = 0;
  int64_t fair_tag = 0;  // FairQueue's
  Clock::time_point arrival;
};

// A strict weak order of those that wait at one moment. A priority grows by one for every `ageing`
// spent waiting, up to the highest one that waits: there it is the older, smaller tags that win, so
// that nobody is passed for ever.
class WaitingOrder {
 public:
  static constexpr std::chrono::nanoseconds kAgeing = std::chrono::milliseconds(100);

  explicit WaitingOrder(Clock::time_point now, std::chrono::nanoseconds ageing = kAgeing)
      : now_(now), ageing_(ageing) {}

  // Every rank that will be compared.
  void Add(const WaitingRank& rank) {
    highest_ = std::max(highest_, int64_t{rank.priority});
    lowest_ = std::min(lowest_, int64_t{rank.priority});
  }
  // A rank's priority with what it has gained by waiting.
  static int32_t Aged(const WaitingRank& rank, Clock::time_point now) {
    const int64_t aged = rank.priority + (now - rank.arrival) / kAgeing;
    return static_cast<int32_t>(std::min<int64_t>(std::numeric_limits<int32_t>::max(), aged));
  }
  // Whether priorities decide anything.
  bool has_priorities() const { return lowest_ < highest_; }
  // From now on they do not: turns and arrival alone do.
  void ForgetPriorities() { highest_ = lowest_; }

  bool operator()(const WaitingRank& a, const WaitingRank& b) const {
    const int64_t priority_a = AgedPriority(a), priority_b = AgedPriority(b);
    if (priority_a != priority_b) return priority_a > priority_b;
    if (a.fair_tag != b.fair_tag) return a.fair_tag < b.fair_tag;
    return a.arrival < b.arrival;
  }

  // With what it has gained by waiting, up to the highest that waits.
  int64_t AgedPriority(const WaitingRank& rank) const {
    return std::min(highest_, rank.priority + (now_ - rank.arrival) / ageing_);
  }

 private:
  Clock::time_point now_;
  std::chrono::nanoseconds ageing_;
  int64_t highest_ = std::numeric_limits<int64_t>::min();
  int64_t lowest_ = std::numeric_limits<int64_t>::max();
};

}  // namespace beamline
