// How many requests of a replica are accepted and not yet in a step. The number changes here alone:
// each of these requests holds a WaitingCount.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

namespace beamline {

class WaitingCounter {
 public:
  int64_t count() const { return count_.load(); }

 private:
  friend class WaitingCount;
  std::atomic<int64_t> count_ = 0;
};

// One request among those that wait. The counter outlives it.
class WaitingCount {
 public:
  WaitingCount() = default;  // waits nowhere
  // Nullopt when `limit` wait already.
  static std::optional<WaitingCount> Enter(WaitingCounter& counter, int64_t limit) {
    int64_t count = counter.count_.load();
    do {
      if (count >= limit) return std::nullopt;
    } while (!counter.count_.compare_exchange_weak(count, count + 1));
    return WaitingCount(counter);
  }
  ~WaitingCount() { Leave(); }
  WaitingCount(WaitingCount&& other) noexcept : counter_(std::exchange(other.counter_, nullptr)) {}
  WaitingCount& operator=(WaitingCount&& other) noexcept {
    std::swap(counter_, other.counter_);
    return *this;
  }

  void Leave() {
    if (counter_ != nullptr) --std::exchange(counter_, nullptr)->count_;
  }

 private:
  explicit WaitingCount(WaitingCounter& counter) : counter_(&counter) {}

  WaitingCounter* counter_ = nullptr;
};

}  // namespace beamline
