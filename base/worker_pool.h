// A few threads for work that must not run on the caller's: tokenizing, converting answers.
#pragma once

#include <deque>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "base/semaphore.h"

namespace beamline {

class WorkerPool {
 public:
  using Work = absl::AnyInvocable<void()>;

  explicit WorkerPool(int num_threads);
  // Runs what has been posted, then ends.
  ~WorkerPool();

  // Runs `work` on one of the threads, first come first served. Returns at once. Where the calling
  // thread has a WorkBatch (base/work_batch.h), that keeps the work until it is handed over.
  void Post(Work work);
  // As Post. Work that is done in some microseconds and never waits: a calling thread that has a
  // WorkBatch and nothing else to do may come to run it itself.
  void PostBrief(Work work);

 private:
  friend class WorkBatch;

  // Takes over what `work` holds, in its order, and wakes as many threads as that needs.
  void PostAll(std::span<Work> work);
  void Run();

  std::mutex mutex_;
  std::deque<Work> work_;  // guarded by mutex_
  int num_asleep_ = 0;     // guarded by mutex_; threads that nobody has woken yet
  bool ending_ = false;    // guarded by mutex_
  Semaphore wake_up_;
  std::vector<std::thread> threads_;
};

}  // namespace beamline
