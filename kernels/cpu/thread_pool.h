// Compute threads. Every CPU backend of the process shares the global pool, so that several models'
// replica threads never run more compute threads than there are cores; but for those that have
// cores of their own.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace beamline::cpu {

class ThreadPool {
 public:
  // Called with a range of items and the index of the thread that runs it, 0 (the caller) ..
  // num_threads - 1.
  using Body = absl::FunctionRef<void(int64_t begin, int64_t end, int thread)>;

  // The pool of this process; it starts without workers.
  static ThreadPool& Global();

  // Its workers run on `cores`; empty: on any.
  explicit ThreadPool(std::vector<int> cores = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Starts workers until num_threads - 1 of them run. REQUIRES: num_threads <= kMaxThreads.
  void Grow(int num_threads);

  // Runs body over [0, num_items) on the calling thread and up to num_threads - 1 workers, and
  // returns when all of it is done. Every thread owns one contiguous part (so that it meets the
  // same data in the next call), takes it `chunk` items at a time, and then helps the others: a
  // worker that is late, asleep or preempted costs nothing but its help. Concurrent callers take
  // turns. The body must not call ParallelFor.
  void ParallelFor(int num_threads, int64_t num_items, int64_t chunk, Body body);

  static constexpr int kMaxThreads = 256;

 private:
  // Set in state_ while workers may join the job; the bits below count the workers inside.
  static constexpr uint32_t kOpen = 1u << 31;

  // One thread's part of the items. A cache line each: owners advance without disturbing others.
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  // The job that is open. Written only while no worker is inside.
  struct Job {
    const Body* body = nullptr;
    int num_threads = 0;
    int64_t chunk = 1;
  };

  void WorkerLoop(int thread);
  uint32_t WaitForNewJob(uint32_t seen) const;
  bool Join();
  void RunParts(int thread);
  void WaitUntilEmpty() const;

  const std::vector<int> cores_;
  // Held for the length of a ParallelFor; guards the workers and the job. Not absl::Mutex, whose
  // library ThreadSanitizer cannot see into.
  std::mutex mutex_;
  std::vector<std::thread> workers_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<Part[]> parts_;
  Job job_;
  alignas(64) std::atomic<uint32_t> generation_{0};  // of the latest job; workers park on it
  alignas(64) std::atomic<uint32_t> state_{0};
};

}  // namespace beamline::cpu
