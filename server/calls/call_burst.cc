#include "server/calls/call_burst.h"

#include <algorithm>
#include <utility>

namespace beamline {
namespace {

constexpr int64_t kFewest = 2;  // calls of a burst: with the one that has sent the marker

}  // namespace

CallBurst::CallBurst() {
  marker_.functor_run = [](grpc_completion_queue_functor* marker, int /*ok*/) {
    static_cast<Marker*>(marker)->burst->End();
  };
  marker_.inlineable = 0;
  marker_.burst = this;
}

CallBurst::~CallBurst() {
  bool is_marked = false;
  {
    std::lock_guard lock(mutex_);
    is_ending_ = true;
    is_marked = is_marked_;
  }
  if (is_marked) returned_.Acquire();
}

bool CallBurst::Keep(LentThread::Work& work, grpc_call* call) {
  {
    std::lock_guard lock(mutex_);
    if (is_marked_) {
      kept_.push_back(std::move(work));
      return true;
    }
    if (to_skip_ > 0) {
      --to_skip_;
      return false;
    }
    kept_.push_back(std::move(work));
    is_marked_ = true;
    num_calls_.store(0, std::memory_order_relaxed);
  }
  // A batch without operations has nothing to do but to come out of the queue.
  if (grpc_call_start_batch(call, nullptr, 0, &marker_, nullptr) != GRPC_CALL_OK) End();
  return true;
}

void CallBurst::TakeIn() {
  if (num_calls_.fetch_add(1, std::memory_order_relaxed) + 1 < kMostCalls) return;
  std::vector<LentThread::Work> kept;
  {
    std::lock_guard lock(mutex_);
    if (!is_marked_ || num_calls_.load(std::memory_order_relaxed) < kMostCalls) return;
    kept.swap(kept_);
    num_calls_.store(kFewest, std::memory_order_relaxed);
  }
  for (LentThread::Work& work : kept) LentThread::Do(work);
}

void CallBurst::End() {
  std::vector<LentThread::Work> kept;
  bool is_ending = false;
  {
    std::lock_guard lock(mutex_);
    const bool was_alone = num_calls_.load(std::memory_order_relaxed) < kFewest;
    skipped_ = was_alone ? std::clamp(2 * skipped_, 1, kMostUnmarked) : 0;
    to_skip_ = skipped_;
    kept.swap(kept_);
    is_marked_ = false;
    is_ending = is_ending_;
  }
  for (LentThread::Work& work : kept) LentThread::Do(work);
  if (is_ending) returned_.Release();
}

}  // namespace beamline
