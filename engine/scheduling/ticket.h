// Counts the requests that are accepted and not yet answered, so that a drain can wait for them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace beamline {

class TicketCounter {
 public:
  // Waits until no ticket is out. False when that takes longer than `timeout`.
  bool WaitForNone(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, timeout, [this] { return count_ == 0; });
  }

  int64_t count() const {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  friend class Ticket;
  void Add(int64_t change) {
    std::lock_guard lock(mutex_);
    count_ += change;
    if (count_ == 0) none_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable none_;
  int64_t count_ = 0;
};

// Held by a request from its acceptance until after its sink's last call. The counter outlives it.
class Ticket {
 public:
  explicit Ticket(TicketCounter& counter) : counter_(counter) { counter_.Add(1); }
  ~Ticket() { counter_.Add(-1); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

 private:
  TicketCounter& counter_;
};

}  // namespace beamline
