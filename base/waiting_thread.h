// Deferred work for a thread that waits for an answer. Code that the thread calls may leave it the
// work that produces the answer. Then no other thread is woken for the work, and none needs to wake
// this one.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"

namespace beamline {

// Lives on the thread's stack, around the call that asks. The destructor runs the deferred work;
// afterwards the thread waits for anything still unanswered. The thread must hold no lock at that
// point.
class WaitingThread {
 public:
  using Work = absl::AnyInvocable<void()>;

  // `is_answered` must outlive this object. It returns whether the thread has its answer. REQUIRES:
  // MayLend().
  explicit WaitingThread(absl::FunctionRef<bool()> is_answered);
  // Runs the deferred work.
  ~WaitingThread();
  WaitingThread(const WaitingThread&) = delete;
  WaitingThread& operator=(const WaitingThread&) = delete;

  // Whether the calling thread may create one. It must have no other one and no WorkBatch
  // (base/work_batch.h), because the deferred work creates a WorkBatch.
  static bool MayLend();
  // The calling thread's object. Null if it has none, or has deferred work already.
  static WaitingThread* OfThisThread();

  // Defers the work, which must end soon after StillWaits() turns false. REQUIRES: no work was left
  // before.
  void Leave(Work work);
  bool StillWaits() const { return !is_answered_(); }

 private:
  const absl::FunctionRef<bool()> is_answered_;
  Work work_;
};

}  // namespace beamline
