// What other threads hand to a replica's thread, and how one of them takes that thread's place.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/semaphore.h"
#include "kernels/cpu/spin.h"

namespace beamline {

// Any thread puts; one thread, the taker, takes everything at once. While the taker sleeps, a
// thread that puts may take its place instead of waking it, until it gives the place back: one
// thread at a time takes, and sees all that the one before it did.
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

  enum class PutResult : uint8_t { kClosed, kPut, kInPlace };
  // As Put; a taker that sleeps is not woken: the caller is in its place then (kInPlace), and owes
  // GiveBack or a TryGiveBack that succeeds. The place's holder calls Take without `wait`.
  PutResult PutInPlace(T& item) {
    std::lock_guard lock(mutex_);
    if (closed_) return PutResult::kClosed;
    items_.push_back(std::move(item));
    return FillLocked() ? PutResult::kInPlace : PutResult::kPut;
  }

  // The taker, who sleeps, has its place again. False, and the caller stays in it, when there is
  // something to take, or the end.
  bool TryGiveBack() {
    if (HasSomething()) return false;
    std::lock_guard lock(mutex_);
    asleep_ = !HasSomething();
    return asleep_;
  }
  // The same, and the taker is woken: it returns with what there is, perhaps nothing.
  void GiveBack() {
    {
      std::lock_guard lock(mutex_);
      filled_.store(true, std::memory_order_relaxed);
    }
    wake_up_.Release();
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

  // Moves what has come into `items`, in place of what is there. With `wait`, sleeps until there is
  // something, or the end, and looks for it for `look_for` before it sleeps, with the core given to
  // others now and then. False when closed.
  bool Take(bool wait, std::vector<T>& items,
            std::chrono::microseconds look_for = std::chrono::microseconds(0)) {
    if (!wait && !HasSomething()) {
      items.clear();
      return true;
    }
    while (true) {
      {
        std::lock_guard lock(mutex_);
        asleep_ = wait && !HasSomething();
        if (!asleep_) {
          items.clear();  // not before: who was in the taker's place has used them
          std::swap(items, items_);
          filled_.store(closed_, std::memory_order_relaxed);
          return !closed_;
        }
      }
      if (look_for.count() == 0 || !LookFor(look_for)) wake_up_.Acquire();
    }
  }

 private:
  // Whether the wake-up comes in that time. Who fills the inbox then makes no system call. Who has
  // just been answered may have been woken on this core: it gets it at once.
  bool LookFor(std::chrono::microseconds time) {
    constexpr int kLooksOfTurn = 32;  // some microseconds
    const auto end = std::chrono::steady_clock::now() + time;
    do {
      for (int i = 0; i < kLooksOfTurn; ++i) {
        if (wake_up_.TryAcquire()) return true;
        cpu::Pause();
      }
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }
  // Whether the taker is to be woken.
  bool FillLocked() {
    filled_.store(true, std::memory_order_relaxed);
    return std::exchange(asleep_, false);
  }

  std::mutex mutex_;
  std::vector<T> items_;  // guarded by mutex_
  bool closed_ = false;   // guarded by mutex_
  // Guarded by mutex_: the taker sleeps, nobody is in its place, and nobody wakes it.
  bool asleep_ = false;
  std::atomic<bool> filled_{false};  // items or the end; written with mutex_ held
  Semaphore wake_up_;
};

}  // namespace beamline
