// Counts accepted requests without an answer, so that a drain can wait for them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace beamline {

class TicketCounter {
 public:
  // Waits until there is no ticket. Returns false after `timeout`.
  bool WaitForNone(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, timeout, [this] { return count() == 0; });
  }

  int64_t count() const { return count_.load(std::memory_order_acquire); }

 private:
  friend class Ticket;
  void Add() { count_.fetch_add(1, std::memory_order_relaxed); }
  // The last ticket is returned with the mutex held: a thread in WaitForNone may destroy the
  // counter as soon as it sees 0.
  void Remove() {
    int64_t count = count_.load(std::memory_order_relaxed);
    while (count > 1) {
      if (count_.compare_exchange_weak(count, count - 1, std::memory_order_acq_rel)) return;
    }
    std::lock_guard lock(mutex_);
    if (count_.fetch_sub(1, std::memory_order_acq_rel) == 1) none_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable none_;
  std::atomic<int64_t> count_ = 0;  // becomes 0 with mutex_ held
};

// Held by a request from its acceptance until after its sink's last call. The counter must outlive
// it.
class Ticket {
 public:
  Ticket() = default;  // counts nothing
  explicit Ticket(TicketCounter& counter) : counter_(&counter) { counter.Add(); }
  ~Ticket() {
    if (counter_ != nullptr) counter_->Remove();
  }
  Ticket(Ticket&& other) noexcept : counter_(std::exchange(other.counter_, nullptr)) {}
  Ticket& operator=(Ticket&& other) noexcept {
    std::swap(counter_, other.counter_);
    return *this;
  }

 private:
  TicketCounter* counter_ = nullptr;
};

}  // namespace beamline
