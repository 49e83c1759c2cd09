#include "kernels/cpu/thread_pool.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/thread_name.h"
#include "kernels/cpu/core_sets.h"
#include "kernels/cpu/spin.h"

namespace beamline::cpu {
ThreadPool& ThreadPool::Global() {
  static ThreadPool pool;
  return pool;
}

ThreadPool::ThreadPool(std::vector<int> cores)
    : cores_(std::move(cores)), parts_(std::make_unique<Part[]>(kMaxThreads)) {}

ThreadPool::~ThreadPool() {
  std::lock_guard lock(mutex_);
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Grow(int num_threads) {
  BEAMLINE_CHECK(num_threads <= kMaxThreads);
  std::lock_guard lock(mutex_);
  while (static_cast<int>(workers_.size()) + 1 < num_threads) {
    const int thread = static_cast<int>(workers_.size()) + 1;
    workers_.emplace_back([this, thread] { WorkerLoop(thread); });
  }
}

void ThreadPool::ParallelFor(int num_threads, int64_t num_items, int64_t chunk, Body body) {
  num_threads = static_cast<int>(std::min<int64_t>(num_threads, num_items));
  if (num_threads <= 1) {
    if (num_items > 0) body(0, num_items, 0);
    return;
  }
  std::lock_guard lock(mutex_);
  job_ = {.body = &body, .num_threads = num_threads, .chunk = std::max<int64_t>(chunk, 1)};
  for (int t = 0; t < num_threads; ++t) {
    parts_[t].next.store(num_items * t / num_threads, std::memory_order_relaxed);
    parts_[t].end = num_items * (t + 1) / num_threads;
  }
  state_.store(kOpen, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  RunParts(0);
  state_.fetch_and(~kOpen, std::memory_order_acq_rel);
  WaitUntilEmpty();
}

void ThreadPool::WorkerLoop(int thread) {
  NameThisThread("compute");
  RunOn(cores_);
  uint32_t seen = 0;
  for (;;) {
    seen = WaitForNewJob(seen);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!Join()) continue;
    if (thread < job_.num_threads) RunParts(thread);
    state_.fetch_sub(1, std::memory_order_release);
  }
}

uint32_t ThreadPool::WaitForNewJob(uint32_t seen) const {
  const auto changed = [&] { return generation_.load(std::memory_order_acquire) != seen; };
  if (!SpinUntil(changed)) generation_.wait(seen, std::memory_order_acquire);
  return generation_.load(std::memory_order_acquire);
}

// Enters the open job, if there is one. Only a thread inside may read job_.
bool ThreadPool::Join() {
  uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & kOpen) != 0) {
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

// Runs the thread's own part first, then what is left of the others' parts.
void ThreadPool::RunParts(int thread) {
  for (int i = 0; i < job_.num_threads; ++i) {
    Part& part = parts_[(thread + i) % job_.num_threads];
    for (;;) {
      const int64_t begin = part.next.fetch_add(job_.chunk, std::memory_order_relaxed);
      if (begin >= part.end) break;
      (*job_.body)(begin, std::min(begin + job_.chunk, part.end), thread);
    }
  }
}

void ThreadPool::WaitUntilEmpty() const {
  const auto empty = [&] { return state_.load(std::memory_order_acquire) == 0; };
  while (!SpinUntil(empty)) std::this_thread::yield();
}

}  // namespace beamline::cpu
