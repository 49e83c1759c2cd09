// How long the requests are that were refused lately for their deadlines. What is short finds room
// in a queue that leaves none for what is long, so that under a lasting overload only the shortest
// would be taken: a short request must leave as much of its deadline as they would have needed
// (docs/decisions/0026-admission.md). Any thread; no clock of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cmath>

#include "engine/api/request.h"

namespace beamline {

class RefusedLength {
 public:
  // One that would have taken so long from its first step until its answer is of use.
  void Add(double seconds, Clock::time_point now) {
    if (seconds < this->seconds(now)) return;
    // Who reads between the two sees one of them with the other's time, which is as good.
    seconds_.store(seconds, std::memory_order_relaxed);
    when_.store(now, std::memory_order_relaxed);
  }
  // The longest, each counted half after kHalves, and so on; 0: none.
  double seconds(Clock::time_point now) const {
    const double longest = seconds_.load(std::memory_order_relaxed);
    if (longest <= 0) return 0;
    const std::chrono::duration<double> age = now - when_.load(std::memory_order_relaxed);
    return longest * std::exp2(-std::fmax(0, age / std::chrono::duration<double>(kHalves)));
  }

  static constexpr std::chrono::seconds kHalves{1};

 private:
  std::atomic<double> seconds_ = 0;
  std::atomic<Clock::time_point> when_ = Clock::time_point();
};

}  // namespace beamline
