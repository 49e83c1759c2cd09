// Who goes first among the requests that wait: by priority, then by fair share, then by arrival.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

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

 private:
  int64_t AgedPriority(const WaitingRank& rank) const {
    return std::min(highest_, rank.priority + (now_ - rank.arrival) / ageing_);
  }

  Clock::time_point now_;
  std::chrono::nanoseconds ageing_;
  int64_t highest_ = std::numeric_limits<int64_t>::min();
  int64_t lowest_ = std::numeric_limits<int64_t>::max();
};

// Hands out jobs that wait in WaitingOrder, equals as they were added. Of thousands it sorts only
// as many as are asked for.
template <typename JobType>
class WaitingTurns {
 public:
  // Forgets all.
  void Start(Clock::time_point now) {
    order_ = WaitingOrder(now);
    heap_.clear();
    is_heap_ = false;
  }
  // REQUIRES: Next was not called since Start.
  void Add(JobType& job) {
    order_.Add(job.rank);
    heap_.push_back({job.rank, heap_.size(), &job});
  }
  bool has_priorities() const { return order_.has_priorities(); }
  // Those that are left follow without their priorities, and `again`, which Next gave last.
  void ForgetPriorities(JobType& again) {
    heap_.push_back({again.rank, heap_.size(), &again});
    is_heap_ = false;
    order_.ForgetPriorities();
  }
  // Whose turn is next, once. Null: none is left.
  JobType* Next() {
    const auto is_later = [this](const Entry& a, const Entry& b) {
      if (order_(a.rank, b.rank)) return false;
      return order_(b.rank, a.rank) || a.number > b.number;
    };
    if (heap_.empty()) return nullptr;
    if (!std::exchange(is_heap_, true)) std::ranges::make_heap(heap_, is_later);
    std::ranges::pop_heap(heap_, is_later);
    JobType* const job = heap_.back().job;
    heap_.pop_back();
    return job;
  }

 private:
  struct Entry {
    WaitingRank rank;
    size_t number = 0;
    JobType* job = nullptr;
  };

  WaitingOrder order_{Clock::time_point()};
  std::vector<Entry> heap_;
  bool is_heap_ = false;
};

}  // namespace beamline
