#include "base/lent_thread.h"

#include <utility>

#include "base/check.h"
#include "base/work_batch.h"

namespace beamline {
namespace {

thread_local LentThread* lent_thread = nullptr;
thread_local bool is_working = false;
thread_local bool has_worked = false;

}  // namespace

LentThread::LentThread(Later* later) : later_(later) {
  BEAMLINE_CHECK(lent_thread == nullptr && WorkBatch::OfThisThread() == nullptr);
  lent_thread = this;
  has_worked = false;
}

LentThread::~LentThread() {
  lent_thread = nullptr;
  if (!work_ || (later_ != nullptr && later_->Take(work_))) return;
  Do(work_);
}

void LentThread::Do(Work& work) {
  is_working = true;
  work();
  is_working = false;
  has_worked = true;
}

bool LentThread::IsWorking() { return is_working; }

bool LentThread::HasWorked() { return has_worked; }

void LentThread::ForgetWork() { has_worked = false; }

LentThread* LentThread::OfThisThread() {
  return lent_thread == nullptr || lent_thread->work_ ? nullptr : lent_thread;
}

void LentThread::Leave(Work work) {
  BEAMLINE_CHECK(!work_);
  work_ = std::move(work);
}

}  // namespace beamline
