// A few threads for work that must not run on the caller's: tokenizing, above all.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace beamline {

class WorkerPool {
 public:
  explicit WorkerPool(int num_threads);
  // Runs what has been posted, then ends.
  ~WorkerPool();

  // Runs `work` on one of the threads, first come first served. Returns at once.
  void Post(absl::AnyInvocable<void()> work);

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<absl::AnyInvocable<void()>> work_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace beamline
