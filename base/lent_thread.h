// A thread that lends itself: whom it calls may leave it work, where that spares the waking of
// another thread, and it does the work when it holds nothing of its callers' any more.
#pragma once

#include "absl/functional/any_invocable.h"

namespace beamline {

// On the stack of the thread that lends itself. Whoever makes one says that the thread holds no
// lock at its end and may spend some ten microseconds there.
class LentThread {
 public:
  using Work = absl::AnyInvocable<void()>;

  // Whoever knows that the thread, or one like it, comes to calls of the same kind in a moment.
  class Later {
   public:
    // Takes what a thread was left, to have it done by Do soon. False, and nothing is taken: it is
    // to be done now.
    virtual bool Take(Work& work) = 0;

   protected:
    ~Later() = default;
  };

  // REQUIRES: the thread has neither another one nor a WorkBatch (base/work_batch.h). `later`
  // outlives it, and may be null.
  explicit LentThread(Later* later = nullptr);
  // Does what was left, unless it is taken to be done later. The thread lends itself no more then,
  // so that the work can leave nothing.
  ~LentThread();
  LentThread(const LentThread&) = delete;
  LentThread& operator=(const LentThread&) = delete;

  // Null: the calling thread does not lend itself, or has been left work already.
  static LentThread* OfThisThread();

  // Does what some thread was left. The calling one holds no lock, and does not lend itself.
  static void Do(Work& work);

  // Whether the calling thread does what was left. Such work is too short for others to help.
  static bool IsWorking();
  // Whether it has done such work, and neither lent itself nor called ForgetWork since.
  static bool HasWorked();
  static void ForgetWork();

  // REQUIRES: nothing was left before.
  void Leave(Work work);

 private:
  Later* const later_;
  Work work_;
};

}  // namespace beamline
