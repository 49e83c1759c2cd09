// The requests of a model that are accepted and not yet in a step: how many, how much they ask for,
// and whose turn comes first. All of it changes here alone: each request holds a WaitingCount.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/shared_limit.h"
#include "engine/scheduling/waiting_work.h"

namespace beamline {

// Any thread.
class WaitingCounter {
 public:
  int64_t count() const { return count_.load(); }
  // Calls `read` with the WaitingWork, which changes no more meanwhile.
  template <typename Read>
  auto Look(const Read& read) const {
    std::lock_guard lock(mutex_);
    return read(work_);
  }

 private:
  friend class WaitingCount;
  std::atomic<int64_t> count_ = 0;
  mutable std::mutex mutex_;
  WaitingWork work_;  // guarded by mutex_
};

// One request: among those that wait until it begins, and among its client's until it is over. The
// counter outlives it.
class WaitingCount {
 public:
  WaitingCount() = default;  // waits nowhere
  // Nullopt when `limit` wait already. So that a client which fills the queue does not keep others
  // out, the last sixteenth of the places is for those that have few (SharedLimit).
  static std::optional<WaitingCount> Enter(WaitingCounter& counter, int64_t limit,
                                           const std::string& client) {
    const int64_t taken = counter.count();
    const bool is_scarce = taken >= limit - SharedLimit::Reserve(limit) && taken < limit;
    if (is_scarce && !counter.Look([&](const WaitingWork& work) {
          return work.RequestsFor(client, limit, taken).HasRoom();
        })) {
      return std::nullopt;
    }
    return Enter(counter, limit);
  }
  // Nullopt when `limit` wait already, whoever asks.
  static std::optional<WaitingCount> Enter(WaitingCounter& counter, int64_t limit) {
    int64_t count = counter.count_.load();
    do {
      if (count >= limit) return std::nullopt;
    } while (!counter.count_.compare_exchange_weak(count, count + 1));
    return WaitingCount(counter);
  }
  ~WaitingCount() { Leave(); }
  WaitingCount(WaitingCount&& other) noexcept
      : counter_(std::exchange(other.counter_, nullptr)),
        waits_(other.waits_),
        fair_tag_(other.fair_tag_),
        waiter_(std::exchange(other.waiter_, std::nullopt)) {}
  WaitingCount& operator=(WaitingCount&& other) noexcept {
    std::swap(counter_, other.counter_);
    std::swap(waits_, other.waits_);
    std::swap(fair_tag_, other.fair_tag_);
    std::swap(waiter_, other.waiter_);
    return *this;
  }

  // What it asks for, as far as it waits somewhere; once. Nullopt, or what its tokens would have
  // made of those that wait when that is more than the client may bring of `most_tokens`
  // (SharedLimit): nothing is added then. A request that waits alone may bring any number.
  std::optional<int64_t> Describe(Waiter waiter, int64_t most_tokens) {
    if (counter_ == nullptr) return std::nullopt;
    std::lock_guard lock(counter_->mutex_);
    WaitingWork& work = counter_->work_;
    const int64_t tokens = work.input_tokens() + waiter.input_tokens;
    if (!work.empty() && !work.TokensFor(waiter.client, most_tokens).HasRoom(waiter.input_tokens)) {
      return tokens;
    }
    fair_tag_ = work.Add(waiter);
    waiter_ = std::move(waiter);
    return std::nullopt;
  }
  // When its turn is, among those of its model; 0 before Describe.
  int64_t fair_tag() const { return fair_tag_; }

  // It begins, or a part of it that has its turn at `fair_tag`: it waits no more.
  void Begin(int64_t fair_tag) {
    if (counter_ == nullptr) return;
    if (waiter_.has_value()) {
      std::lock_guard lock(counter_->mutex_);
      counter_->work_.BeginTurn(fair_tag);
      if (waits_) counter_->work_.Begin(*waiter_);
    }
    if (std::exchange(waits_, false)) --counter_->count_;
  }
  // It is over, begun or not.
  void Leave() {
    if (counter_ == nullptr) return;
    if (waiter_.has_value()) {
      std::lock_guard lock(counter_->mutex_);
      if (waits_) {
        counter_->work_.Remove(*waiter_, fair_tag_);
      } else {
        counter_->work_.Finish(*waiter_);
      }
    }
    waiter_.reset();
    if (std::exchange(waits_, false)) --counter_->count_;
    counter_ = nullptr;
  }

 private:
  explicit WaitingCount(WaitingCounter& counter) : counter_(&counter), waits_(true) {}

  WaitingCounter* counter_ = nullptr;
  bool waits_ = false;
  int64_t fair_tag_ = 0;
  std::optional<Waiter> waiter_;  // described
};

}  // namespace beamline
