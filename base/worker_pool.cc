#include "base/worker_pool.h"

#include <algorithm>
#include <utility>

#include "base/work_batch.h"

namespace beamline {

WorkerPool::WorkerPool(int num_threads) {
  try {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
  } catch (...) {
    End();
    throw;
  }
}

WorkerPool::~WorkerPool() { End(); }

void WorkerPool::End() {
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
    return batch->Keep(*this, {.work = std::move(work)});
  }
  Piece piece{.work = std::move(work)};
  PostAll({&piece, 1});
}

void WorkerPool::PostBrief(Work work) {
  if (WorkBatch* batch = WorkBatch::OfThisThread(); batch != nullptr) {
    return batch->KeepBrief(*this, {.work = std::move(work)});
  }
  Piece piece{.work = std::move(work)};
  PostAll({&piece, 1});
}

void WorkerPool::PostSend(Work work, Turn turn) {
  Piece piece{.work = std::move(work), .turn = turn};
  if (WorkBatch* batch = WorkBatch::OfThisThread(); batch != nullptr) {
    return batch->Keep(*this, std::move(piece));
  }
  PostAll({&piece, 1});
}

bool WorkerPool::HasWaiting() {
  std::lock_guard lock(mutex_);
  return !first_.empty() || !work_.empty();
}

void WorkerPool::PostAll(std::span<Piece> pieces) {
  int num_woken = 0;
  {
    std::lock_guard lock(mutex_);
    for (Piece& piece : pieces) {
      (piece.turn == Turn::kFirst ? first_ : work_).push_back(std::move(piece.work));
    }
    num_woken = std::min(num_asleep_, static_cast<int>(pieces.size()));
    num_asleep_ -= num_woken;
  }
  for (int i = 0; i < num_woken; ++i) wake_up_.Release();
}

WorkerPool::Work WorkerPool::TakeLocked() {
  std::deque<Work>& waiting = first_.empty() ? work_ : first_;
  if (waiting.empty()) return nullptr;
  Work work = std::move(waiting.front());
  waiting.pop_front();
  return work;
}

void WorkerPool::Run() {
  while (true) {
    Work work;
    {
      std::lock_guard lock(mutex_);
      work = TakeLocked();
      if (!work) {
        if (ending_) return;
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
