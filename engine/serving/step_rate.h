// How long a replica's steps take, for each token.
#pragma once

#include <atomic>

namespace beamline {

// A line through the origin, fitted to the recent steps by least squares: large steps, which tell
// what a replica does when requests wait, weigh most. One thread adds, any reads.
class StepRate {
 public:
  void Add(double tokens, double seconds) {
    constexpr double kKept = 0.98;  // of what was, at each step
    if (tokens <= 0) return;
    products_ = kKept * products_ + tokens * seconds;
    squares_ = kKept * squares_ + tokens * tokens;
    seconds_per_token_.store(products_ / squares_, std::memory_order_relaxed);
  }
  // 0: nothing was added.
  double seconds_per_token() const { return seconds_per_token_.load(std::memory_order_relaxed); }

 private:
  double products_ = 0;
  double squares_ = 0;
  std::atomic<double> seconds_per_token_ = 0;
};

}  // namespace beamline
