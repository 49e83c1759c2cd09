// Hands out jobs that wait in WaitingOrder.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/scheduling/waiting_list.h"
#include "engine/scheduling/waiting_order.h"

namespace beamline {

// Equals come as they were added, those of the list last.
template <typename JobType>
class WaitingTurns {
 public:
  // Forgets all, and hands out those of `list` from now on.
  void Start(const WaitingList<JobType>& list, Clock::time_point now) {
    order_ = WaitingOrder(now);
    heap_.clear();
    is_heap_ = false;
    for (const auto& entry : list.entries()) {
      order_.Add(entry.rank);
      heap_.push_back(
          {.rank = entry.rank, .is_of_list = true, .number = entry.number, .job = entry.job});
    }
  }
  // One that is not in the list. REQUIRES: Next was not called since Start.
  void Add(JobType& job) {
    order_.Add(job.rank);
    heap_.push_back({.rank = job.rank, .number = heap_.size(), .job = &job});
  }
  bool has_priorities() const { return order_.has_priorities(); }
  const WaitingOrder& order() const { return order_; }
  // Those that are left follow without their priorities, and `again`, which Next gave last.
  void ForgetPriorities(JobType& again) {
    order_.ForgetPriorities();
    is_heap_ = false;
    heap_.push_back({.rank = again.rank, .number = heap_.size(), .job = &again});
  }
  // The next one in turn, once. Null: none is left.
  JobType* Next() {
    if (heap_.empty()) return nullptr;
    if (!std::exchange(is_heap_, true)) MakeHeap();
    std::ranges::pop_heap(heap_, IsLater);
    JobType* const next = heap_.back().job;
    heap_.pop_back();
    return next;
  }

 private:
  struct Entry {
    WaitingRank rank;
    int64_t priority = 0;  // by now, where priorities decide
    bool is_of_list = false;
    uint64_t number = 0;
    JobType* job = nullptr;
  };

  static bool IsLater(const Entry& a, const Entry& b) {
    if (a.priority != b.priority) return a.priority < b.priority;
    const auto turn = [](const Entry& of) {
      return std::tie(of.rank.fair_tag, of.rank.arrival, of.is_of_list, of.number);
    };
    return turn(a) > turn(b);
  }
  void MakeHeap() {
    const bool has_priorities = order_.has_priorities();
    for (Entry& entry : heap_) {
      entry.priority = has_priorities ? order_.AgedPriority(entry.rank) : 0;
    }
    std::ranges::make_heap(heap_, IsLater);
  }

  WaitingOrder order_{Clock::time_point()};
  std::vector<Entry> heap_;
  bool is_heap_ = false;
};

}  // namespace beamline
