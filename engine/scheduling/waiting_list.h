// The jobs that wait, and what their turns go by, side by side in memory: a step looks at all of
// them (WaitingTurns), which is fast as long as it follows no pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/scheduling/waiting_order.h"

namespace beamline {

// Not thread safe. JobType has a `rank`, which the list copies, and a `turn`, which is the list's.
template <typename JobType>
class WaitingList {
 public:
  static constexpr int32_t kNone = -1;
  struct Entry {
    WaitingRank rank;
    uint64_t number = 0;  // in which order they came
    JobType* job = nullptr;
  };

  // REQUIRES: job.turn is kNone.
  void Add(JobType& job) {
    BEAMLINE_CHECK(job.turn == kNone);
    job.turn = static_cast<int32_t>(entries_.size());
    entries_.push_back({job.rank, next_number_++, &job});
  }
  // False: it is not here.
  bool Remove(JobType& job) {
    if (job.turn == kNone) return false;
    Entry& at = entries_[static_cast<size_t>(job.turn)];
    at = entries_.back();
    at.job->turn = job.turn;
    entries_.pop_back();
    job.turn = kNone;
    return true;
  }
  // In no order.
  std::span<const Entry> entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  uint64_t next_number_ = 0;
};

}  // namespace beamline
