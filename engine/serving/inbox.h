// What other threads hand to a replica's thread.
#pragma once

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/semaphore.h"

namespace beamline {

// Any thread puts; one thread takes everything at once.
template <typename T>
class Inbox {
 public:
  // False, and the item is left alone, when the inbox is closed.
  bool Put(T& item) {
    bool wake = false;
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
      wake = FillLocked();
    }
    if (wake) wake_up_.Release();
    return true;
  }

  // A taker that waits returns, with what there is.
  void Wake() {
    bool wake = false;
    {
      std::lock_guard lock(mutex_);
      wake = FillLocked();
    }
    if (wake) wake_up_.Release();
  }

  // No more items; the taker sees what is there and then closed() == true.
  void Close() {
    bool wake = false;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      wake = FillLocked();
    }
    if (wake) wake_up_.Release();
  }

  // Whether Take finds anything, or the end. For the taker; items of this moment may be missed.
  bool HasSomething() const { return filled_.load(std::memory_order_relaxed); }

  // Moves what has come into `items` (which is emptied first). With `wait`, sleeps until there is
  // something, or the end. False when closed.
  bool Take(bool wait, std::vector<T>& items) {
    items.clear();
    if (!wait && !HasSomething()) return true;
    while (true) {
      {
        std::lock_guard lock(mutex_);
        asleep_ = wait && !HasSomething();
        if (!asleep_) {
          std::swap(items, items_);
          filled_.store(closed_, std::memory_order_relaxed);
          return !closed_;
        }
      }
      wake_up_.Acquire();
    }
  }

 private:
  // Whether the taker is to be woken.
  bool FillLocked() {
    filled_.store(true, std::memory_order_relaxed);
    return std::exchange(asleep_, false);
  }

  std::mutex mutex_;
  std::vector<T> items_;             // guarded by mutex_
  bool closed_ = false;              // guarded by mutex_
  bool asleep_ = false;              // guarded by mutex_; the taker, until it is to be woken
  std::atomic<bool> filled_{false};  // items or the end; written with mutex_ held
  Semaphore wake_up_;
};

}  // namespace beamline
