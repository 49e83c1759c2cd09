// Tells a replica's loop which of its requests were cancelled, so that it looks for none.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace beamline {

class Cancellation;

// Any thread adds; a loop takes.
class CancelledList {
 public:
  // What has been added since the last call, in place of what is in `cancelled`. They name requests
  // and may be gone.
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

// Whether a request's client wants no answer any more. Any thread.
class Cancellation {
 public:
  bool is_cancelled() const { return is_cancelled_.load(std::memory_order_relaxed); }
  // Once.
  void Cancel() {
    std::lock_guard lock(mutex_);
    if (is_cancelled_.exchange(true, std::memory_order_relaxed)) return;
    if (list_ != nullptr) list_->Add(*this);
  }
  // It is in `list` once it is cancelled, or was. Instead of the one before: a request that is
  // begun again is another loop's.
  void Tell(std::shared_ptr<CancelledList> list) {
    std::lock_guard lock(mutex_);
    list_ = std::move(list);
    if (is_cancelled()) list_->Add(*this);
  }

 private:
  std::atomic<bool> is_cancelled_ = false;  // written with mutex_ held
  std::mutex mutex_;                        // taken before the list's
  std::shared_ptr<CancelledList> list_;     // guarded by mutex_; null: nobody's yet
};

}  // namespace beamline
