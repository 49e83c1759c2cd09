// Reports cancelled requests to a replica's loop, so that the loop need not search for them.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace beamline {

class Cancellation;

// Any thread adds; the replica's loop takes.
class CancelledList {
 public:
  // Replaces `cancelled` with the entries added since the last call. They only identify requests,
  // which may have ended since.
  void Take(std::vector<const Cancellation*>& cancelled) {
    cancelled.clear();
    if (!has_some_.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(mutex_);
    has_some_.store(false, std::memory_order_relaxed);
    std::swap(cancelled, cancelled_);
  }

 private:
  friend class Cancellation;
  void Add(const Cancellation& cancellation) {
    std::lock_guard lock(mutex_);
    cancelled_.push_back(&cancellation);
    has_some_.store(true, std::memory_order_relaxed);
  }

  std::mutex mutex_;
  std::vector<const Cancellation*> cancelled_;  // guarded by mutex_
  std::atomic<bool> has_some_ = false;          // written with mutex_ held
};

// Whether a request's client has cancelled it. Thread safe.
class Cancellation {
 public:
  bool is_cancelled() const { return is_cancelled_.load(std::memory_order_relaxed); }
  // Only the first call has an effect.
  void Cancel() {
    std::lock_guard lock(mutex_);
    if (is_cancelled_.exchange(true, std::memory_order_relaxed)) return;
    if (list_ != nullptr) list_->Add(*this);
  }
  // Adds itself to `list` when it is cancelled, or at once if it already is. Replaces the previous
  // list: a restarted request belongs to another loop.
  void Tell(std::shared_ptr<CancelledList> list) {
    std::lock_guard lock(mutex_);
    list_ = std::move(list);
    if (is_cancelled()) list_->Add(*this);
  }

 private:
  std::atomic<bool> is_cancelled_ = false;  // written with mutex_ held
  std::mutex mutex_;                        // taken before the list's
  std::shared_ptr<CancelledList> list_;     // guarded by mutex_; null: not set yet
};

}  // namespace beamline
