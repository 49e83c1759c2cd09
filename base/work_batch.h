// Collects the work that a thread posts to worker pools until it hands the work over. One wake-up
// then serves all of it. The thread may run brief work (WorkerPool::PostBrief) itself while it is
// idle, without waking another thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "base/worker_pool.h"

namespace beamline {

// Only used by the thread that created it.
class WorkBatch {
 public:
  // Collects the work that this thread posts from now on. REQUIRES: the thread has no other
  // WorkBatch.
  WorkBatch();
  ~WorkBatch();
  WorkBatch(const WorkBatch&) = delete;
  WorkBatch& operator=(const WorkBatch&) = delete;

  // The calling thread's batch; null: it has none.
  static WorkBatch* OfThisThread();

  size_t num_brief() const { return brief_.size(); }
  // Posts the collected work to its pools, in order. Call it before anything that takes longer than
  // a wake-up.
  void HandOver();
  // Hands over all work that is not brief. Then runs brief work here, in order, as long as `idle`,
  // which is called before each piece, returns true. Hands over the rest.
  void RunWhile(absl::FunctionRef<bool()> idle);

 private:
  friend class WorkerPool;

  struct Kept {
    WorkerPool* pool;
    WorkerPool::Piece piece;
  };

  void Keep(WorkerPool& pool, WorkerPool::Piece piece) {
    kept_.push_back({&pool, std::move(piece)});
  }
  void KeepBrief(WorkerPool& pool, WorkerPool::Piece piece) {
    brief_.push_back({&pool, std::move(piece)});
  }
  // Avoids an allocation for a few pieces.
  using Pieces = absl::InlinedVector<Kept, 4>;
  void Give(Pieces& kept, size_t first);

  Pieces kept_, brief_;
  std::vector<WorkerPool::Piece> given_;  // pieces for one pool; a member to reuse its memory
};

}  // namespace beamline
