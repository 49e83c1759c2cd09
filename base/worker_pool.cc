#include "base/worker_pool.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/work_batch.h"

namespace beamline {

WorkerPool::WorkerPool(int num_threads) {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() {
  int num_asleep = 0;
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
    num_asleep = std::exchange(num_asleep_, 0);
  }
  for (int i = 0; i < num_asleep; ++i) wake_up_.Release();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::Post(Work work) {
  if (WorkBatch* batch = WorkBatch::OfThisThread(); batch != nullptr) {
    return batch->Keep(*this, std::move(work));
  }
  PostAll({&work, 1});
}

void WorkerPool::PostBrief(Work work) {
  if (WorkBatch* batch = WorkBatch::OfThisThread(); batch != nullptr) {
    return batch->KeepBrief(*this, std::move(work));
  }
  PostAll({&work, 1});
}

void WorkerPool::PostAll(std::span<Work> work) {
  int num_woken = 0;
  {
    std::lock_guard lock(mutex_);
    std::ranges::move(work, std::back_inserter(work_));
    num_woken = std::min(num_asleep_, static_cast<int>(work.size()));
    num_asleep_ -= num_woken;
  }
  for (int i = 0; i < num_woken; ++i) wake_up_.Release();
}

void WorkerPool::Run() {
  while (true) {
    Work work;
    {
      std::lock_guard lock(mutex_);
      if (!work_.empty()) {
        work = std::move(work_.front());
        work_.pop_front();
      } else if (ending_) {
        return;
      } else {
        ++num_asleep_;
      }
    }
    if (work) {
      work();
    } else {
      wake_up_.Acquire();
    }
  }
}

}  // namespace beamline
