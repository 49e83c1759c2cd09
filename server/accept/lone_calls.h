// Tells by how gRPC's pollers wait whether what comes to the server comes one by one, as the calls
// of a client that makes one after the other do (docs/decisions/0059-lone-calls.md).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace beamline {

// Any thread; no clock of its own. Who counts between two others may be left out.
class LoneCalls {
 public:
  using Clock = std::chrono::steady_clock;

  // Who has waited no longer found what was there already.
  static constexpr std::chrono::microseconds kAtOnce{5};
  // What comes further apart is nothing to be near for.
  static constexpr std::chrono::milliseconds kLasts{5};
  // In a row, one at once outweighing four that were waited for.
  static constexpr int kSure = 8, kMost = 16, kOutweighs = 4;

  // A poller has waited from `begin` to `now`, and something came.
  void Came(Clock::time_point begin, Clock::time_point now) {
    const Clock::duration waited = now - begin;
    const Clock::time_point last = last_.exchange(now, std::memory_order_relaxed);
    last_wait_.store(waited, std::memory_order_relaxed);
    int count = count_.load(std::memory_order_relaxed);
    if (now - last > kLasts) {
      count = 0;
    } else if (waited <= kAtOnce) {
      count = std::max(count - kOutweighs, 0);
    } else {
      count = std::min(count + 1, kMost);
    }
    count_.store(count, std::memory_order_relaxed);
  }

  // Something has come, or is being done, that takes a thread's time.
  void Crowd() { count_.store(0, std::memory_order_relaxed); }

  bool AreLone(Clock::time_point now) const {
    return count_.load(std::memory_order_relaxed) >= kSure &&
           now - last_.load(std::memory_order_relaxed) <= kLasts;
  }
  // What the last one took to come.
  Clock::duration last_wait() const { return last_wait_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> count_ = 0;
  std::atomic<Clock::time_point> last_ = Clock::time_point();
  std::atomic<Clock::duration> last_wait_ = Clock::duration::max();
};

}  // namespace beamline
