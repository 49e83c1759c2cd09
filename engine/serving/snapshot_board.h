// What a replica's thread has before it, told to whoever asks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "engine/api/model.h"
#include "engine/api/request.h"

namespace beamline {

// The thread looks between two steps whether somebody asks, which costs it a load; it never waits.
class SnapshotBoard {
 public:
  // Any thread. Asks, and has `wake` wake the thread where it sleeps. nullopt when it has not
  // answered by `until`: a step takes so long, or the thread has ended.
  std::optional<std::vector<JobSnapshot>> Ask(const std::function<void()>& wake,
                                              Clock::time_point until) {
    std::unique_lock lock(mutex_);
    const uint64_t answered = answers_;
    wanted_.store(true, std::memory_order_relaxed);
    lock.unlock();
    wake();
    lock.lock();
    if (!given_.wait_until(lock, until, [&] { return answers_ > answered; })) return std::nullopt;
    return jobs_;
  }

  // Of the thread alone.
  bool wanted() const { return wanted_.load(std::memory_order_relaxed); }
  void Give(std::vector<JobSnapshot> jobs) {
    {
      std::lock_guard lock(mutex_);
      wanted_.store(false, std::memory_order_relaxed);
      jobs_ = std::move(jobs);
      ++answers_;
    }
    given_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  std::atomic<bool> wanted_{false};
  uint64_t answers_ = 0;           // guarded by mutex_
  std::vector<JobSnapshot> jobs_;  // guarded by mutex_
};

}  // namespace beamline
