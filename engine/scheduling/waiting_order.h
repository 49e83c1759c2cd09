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
  void Add(const WaitingRank& rank) { highest_ = std::max(highest_, int64_t{rank.priority}); }

  bool operator()(const WaitingRank& a, const WaitingRank& b) const {
    const int64_t priority_a = AgedPriority(a), priority_b = AgedPriority(b);
    if (priority_a != priority_b) return priority_a > priority_b;
    if (a.fair_tag != b.fair_tag) return a.fair_tag < b.fair_tag;
    return a.arrival < b.arrival;
  }

 private:
  int64_t AgedPriority(const WaitingRank& rank) const {
    return std::min(highest_, rank.priority + (now_ - rank.arrival) / ageing_);
  }

  Clock::time_point now_;
  std::chrono::nanoseconds ageing_;
  int64_t highest_ = std::numeric_limits<int64_t>::min();
};

}  // namespace beamline
