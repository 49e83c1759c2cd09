// A thread that waits for the answer to what it asks: whom it calls may leave it the work for the
// answer, so that no other thread is woken, neither for the work nor by the answer.
#pragma once

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"

namespace beamline {

// On the stack of the thread, around the call that asks; behind it the thread waits for what is not
// answered yet. Whoever makes one says that the thread holds no lock at its end.
class WaitingThread {
 public:
  using Work = absl::AnyInvocable<void()>;

  // `is_answered`, which outlives it, tells whether the thread has what it waits for. REQUIRES:
  // MayLend.
  explicit WaitingThread(absl::FunctionRef<bool()> is_answered);
  // Does what was left.
  ~WaitingThread();
  WaitingThread(const WaitingThread&) = delete;
  WaitingThread& operator=(const WaitingThread&) = delete;

  // Whether the calling thread may make one: it has none, and no WorkBatch (base/work_batch.h),
  // which the work has.
  static bool MayLend();
  // Null: the calling thread does not wait, or has been left work already.
  static WaitingThread* OfThisThread();

  // Work that ends soon once StillWaits says no. REQUIRES: nothing was left before.
  void Leave(Work work);
  bool StillWaits() const { return !is_answered_(); }

 private:
  const absl::FunctionRef<bool()> is_answered_;
  Work work_;
};

}  // namespace beamline
