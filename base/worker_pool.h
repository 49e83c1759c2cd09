// A few threads for work that must not run on the caller's: tokenizing, converting answers.
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

  // Throws std::system_error where the system has no thread left.
  explicit WorkerPool(int num_threads);
  // Runs what has been posted, then ends.
  ~WorkerPool();

  // Runs `work` on one of the threads, first come first served. Returns at once. Where the calling
  // thread has a WorkBatch (base/work_batch.h), that keeps the work until it is handed over.
  void Post(Work work);
  // As Post. Work that is done in some microseconds and never waits: a calling thread that has a
  // WorkBatch and nothing else to do may come to run it itself.
  void PostBrief(Work work);
  // When work that sends has its turn: behind all that was posted before, or before all that was
  // not posted so.
  enum class Turn : uint8_t { kLast, kFirst };
  // As Post, with a turn.
  void PostSend(Work work, Turn turn);

 private:
  friend class WorkBatch;

  struct Piece {
    Work work;
    Turn turn = Turn::kLast;
  };

  // Takes over what `pieces` hold, in their order, and wakes as many threads as that needs.
  void PostAll(std::span<Piece> pieces);
  // Takes what a thread runs next; null: nothing is there.
  Work TakeLocked();
  void Run();
  void End();

  std::mutex mutex_;
  std::deque<Work> first_, work_;  // guarded by mutex_; by their turn
  int num_asleep_ = 0;   // guarded by mutex_; threads that sleep, without those already woken
  bool ending_ = false;  // guarded by mutex_
  Semaphore wake_up_;
  std::vector<std::thread> threads_;
};

}  // namespace beamline
