// The work ahead of a replica: the tokens that its requests may still have to compute. Each request
// holds its share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace beamline {

class WorkCounter {
 public:
  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }
  int64_t requests() const { return requests_.load(std::memory_order_acquire); }

 private:
  friend class WorkShare;
  std::atomic<int64_t> tokens_ = 0;
  std::atomic<int64_t> requests_ = 0;
};

// The counter must outlive it.
class WorkShare {
 public:
  WorkShare() = default;  // counts nothing
  WorkShare(WorkCounter& counter, int64_t tokens) : counter_(&counter), tokens_(tokens) {
    counter.tokens_.fetch_add(tokens, std::memory_order_relaxed);
    counter.requests_.fetch_add(1, std::memory_order_relaxed);
  }
  ~WorkShare() {
    if (counter_ == nullptr) return;
    counter_->tokens_.fetch_sub(tokens_ - done_, std::memory_order_relaxed);
    counter_->requests_.fetch_sub(1, std::memory_order_release);
  }
  WorkShare(WorkShare&& other) noexcept
      : counter_(std::exchange(other.counter_, nullptr)),
        tokens_(other.tokens_),
        done_(other.done_) {}
  WorkShare& operator=(WorkShare&& other) noexcept {
    std::swap(counter_, other.counter_);
    std::swap(tokens_, other.tokens_);
    std::swap(done_, other.done_);
    return *this;
  }

  // Records that `done` of its tokens are computed. Returns how many of these are new.
  int64_t Reach(int64_t done) {
    const int64_t before = std::exchange(done_, std::clamp(done, done_, std::max(done_, tokens_)));
    if (counter_ != nullptr && done_ > before) {
      counter_->tokens_.fetch_sub(done_ - before, std::memory_order_relaxed);
    }
    return done_ - before;
  }
  // The answer is complete and the remaining tokens are not needed. Returns their number.
  int64_t Complete() { return Reach(tokens_); }

 private:
  WorkCounter* counter_ = nullptr;
  int64_t tokens_ = 0;
  int64_t done_ = 0;
};

}  // namespace beamline
