#include "base/worker_pool.h"

#include <utility>

namespace beamline {

WorkerPool::WorkerPool(int num_threads) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Post(absl::AnyInvocable<void()> work) {
  {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  posted_.notify_one();
}

void WorkerPool::Run() {
  while (true) {
    absl::AnyInvocable<void()> work;
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return !work_.empty() || ending_; });
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

}  // namespace beamline
