#include "base/waiting_thread.h"

#include <utility>

#include "base/check.h"
#include "base/work_batch.h"

namespace beamline {
namespace {

thread_local WaitingThread* waiting_thread = nullptr;

}  // namespace

WaitingThread::WaitingThread(absl::FunctionRef<bool()> is_answered) : is_answered_(is_answered) {
  BEAMLINE_CHECK(MayLend());
  waiting_thread = this;
}

WaitingThread::~WaitingThread() {
  waiting_thread = nullptr;
  if (work_) work_();
}

bool WaitingThread::MayLend() {
  return waiting_thread == nullptr && WorkBatch::OfThisThread() == nullptr;
}

WaitingThread* WaitingThread::OfThisThread() {
  return waiting_thread == nullptr || waiting_thread->work_ ? nullptr : waiting_thread;
}

void WaitingThread::Leave(Work work) {
  BEAMLINE_CHECK(!work_);
  work_ = std::move(work);
}

}  // namespace beamline
