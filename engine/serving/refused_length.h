// How long the requests are that were refused lately for their deadlines. What is short finds room
// in a queue that leaves none for what is long, so that under a lasting overload only the shortest
// would be taken: a short request must leave as much of its deadline as they would have needed
// (docs/decisions/0026-admission.md). Any thread; no clock of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "engine/api/request.h"

namespace beamline {

class RefusedLength {
 public:
  // One that would have taken so many steps until its answer is of use.
  void Add(int64_t steps, Clock::time_point now) {
    const auto length = static_cast<double>(steps);
    if (length < this->steps(now)) return;
    // Who reads between the two sees one of them with the other's time, which is as good.
    steps_.store(length, std::memory_order_relaxed);
    when_.store(now, std::memory_order_relaxed);
  }
  // Of the longest; each counts in full for kHolds, half as much kHalves later, and so on. 0: none.
  // While requests are refused by hundreds a second it stays where it is: did it fall between two
  // of the longest, only these would find no room.
  double steps(Clock::time_point now) const {
    const double longest = steps_.load(std::memory_order_relaxed);
    if (longest <= 0) return 0;
    const Clock::duration age = now - when_.load(std::memory_order_relaxed) - kHolds;
    if (age <= Clock::duration::zero()) return longest;
    return longest * std::exp2(-(age / std::chrono::duration<double>(kHalves)));
  }

  static constexpr std::chrono::seconds kHolds{1};
  static constexpr std::chrono::seconds kHalves{1};

 private:
  std::atomic<double> steps_ = 0;
  std::atomic<Clock::time_point> when_ = Clock::time_point();
};

}  // namespace beamline
