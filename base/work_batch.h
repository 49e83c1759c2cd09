// What a thread posts to worker pools, kept until the thread hands it over: one wake-up then serves
// all of it. Work that is brief (WorkerPool::PostBrief) the thread may run itself while it has
// nothing else to do, and nobody is woken.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "base/worker_pool.h"

namespace beamline {

// Used by the thread that made it, alone.
class WorkBatch {
 public:
  // Keeps what this thread posts from now on. REQUIRES: the thread has no other.
  WorkBatch();
  ~WorkBatch();
  WorkBatch(const WorkBatch&) = delete;
  WorkBatch& operator=(const WorkBatch&) = delete;

  // Null: the thread has none.
  static WorkBatch* OfThisThread();

  size_t num_brief() const { return brief_.size(); }
  // Gives what is kept to its pools, in its order. To be called before the thread turns to anything
  // that takes longer than a wake-up.
  void HandOver();
  // Runs brief work here, in its order, while `idle`, which is asked before each piece, says so.
  // Hands over the rest, and first of all what is not brief.
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
  // A few are kept without an allocation.
  using Pieces = absl::InlinedVector<Kept, 4>;
  void Give(Pieces& kept, size_t first);

  Pieces kept_, brief_;
  std::vector<WorkerPool::Piece> given_;  // for one pool; kept for its memory
};

}  // namespace beamline
