#include "base/worker_pool.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "base/send_batch.h"
#include "base/work_batch.h"

namespace beamline {

WorkerPool::WorkerPool(int num_threads) : num_threads_(static_cast<size_t>(num_threads)) {
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
  Piece piece{.work = std::move(work), .sends = true, .turn = turn};
  if (WorkBatch* batch = WorkBatch::OfThisThread(); batch != nullptr) {
    return batch->Keep(*this, std::move(piece));
  }
  PostAll({&piece, 1});
}

void WorkerPool::PostAll(std::span<Piece> pieces) {
  int num_woken = 0;
  {
    std::lock_guard lock(mutex_);
    for (Piece& piece : pieces) {
      (piece.turn == Turn::kFirst ? first_ : work_).push_back(std::move(piece));
    }
    num_woken = std::min(num_asleep_, static_cast<int>(pieces.size()));
    num_asleep_ -= num_woken;
  }
  for (int i = 0; i < num_woken; ++i) wake_up_.Release();
}

void WorkerPool::TakeLocked(std::vector<Work>& taken) {
  // Of one turn alone: the first ones do not wait for what comes behind them.
  std::deque<Piece>& waiting = first_.empty() ? work_ : first_;
  // Others of several threads get their part.
  const size_t most = std::min(CeilDiv(waiting.size(), num_threads_), kMostSends);
  while (!waiting.empty()) {
    const bool sends = waiting.front().sends;
    if (!taken.empty() && !sends) return;
    taken.push_back(std::move(waiting.front().work));
    waiting.pop_front();
    if (!sends || taken.size() == most) return;
  }
}

void WorkerPool::Run() {
  std::vector<Work> taken;
  while (true) {
    {
      std::lock_guard lock(mutex_);
      TakeLocked(taken);
      if (taken.empty()) {
        if (ending_) return;
        ++num_asleep_;
      }
    }
    if (taken.empty()) {
      wake_up_.Acquire();
    } else if (taken.size() == 1) {
      taken.front()();
    } else {
      RunJoined(taken, kMostSends);
    }
    taken.clear();
  }
}

}  // namespace beamline
