// A small thread pool for work that must not run on the calling thread: tokenizing, converting
// answers.
#pragma once

#include <cstddef>
#include <cstdint>
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

  // Throws std::system_error if the system has no thread left.
  explicit WorkerPool(int num_threads);
  // Runs all posted work, then joins the threads.
  ~WorkerPool();

  int num_threads() const { return static_cast<int>(threads_.size()); }
  // Whether something that was posted waits for a thread.
  bool HasWaiting();

  // Runs `work` on one of the threads, first come first served. Returns at once. Where the calling
  // thread has a WorkBatch (base/work_batch.h), that keeps the work until it is handed over.
  void Post(Work work);
  // As Post, for work that takes some microseconds and never blocks. If the calling thread has a
  // WorkBatch, it may run the work itself when it is idle.
  void PostBrief(Work work);
  // The position of posted work in the queue. kLast: after all earlier work. kFirst: before all
  // kLast work.
  enum class Turn : uint8_t { kLast, kFirst };
  // As Post, with a position in the queue.
  void PostSend(Work work, Turn turn);

 private:
  friend class WorkBatch;

  struct Piece {
    Work work;
    Turn turn = Turn::kLast;
  };

  // Moves the work out of `pieces`, in order, and wakes one sleeping thread per piece.
  void PostAll(std::span<Piece> pieces);
  // Removes the next work from the queue; null: the queue is empty. REQUIRES: mutex_ is held.
  Work TakeLocked();
  void Run();
  void End();

  std::mutex mutex_;
  std::deque<Work> first_, work_;  // guarded by mutex_; kFirst work and kLast work
  int num_asleep_ = 0;   // guarded by mutex_; sleeping threads, except those already woken
  bool ending_ = false;  // guarded by mutex_
  Semaphore wake_up_;
  std::vector<std::thread> threads_;
};

}  // namespace beamline
