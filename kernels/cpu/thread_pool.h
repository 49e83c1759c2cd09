// Compute threads. All CPU backends of the process share the global pool, so that several models
// never run more compute threads than there are cores. Backends with their own cores have their own
// pool.
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
  // Called with a range of items and the index of the running thread: 0 (the caller) .. num_threads
  // - 1.
  using Body = absl::FunctionRef<void(int64_t begin, int64_t end, int thread)>;

  // The pool of this process. It starts without workers.
  static ThreadPool& Global();

  // The workers run on `cores`; empty: on any core.
  explicit ThreadPool(std::vector<int> cores = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Starts workers until num_threads - 1 of them run. REQUIRES: num_threads <= kMaxThreads.
  void Grow(int num_threads);

  // Runs body over [0, num_items) on the calling thread and up to num_threads - 1 workers. Returns
  // when all of it is done. Each thread has one contiguous part, so that it uses the same data in
  // the next call. It takes `chunk` items at a time, and then helps the others. So a worker that is
  // late, asleep or preempted delays nothing; only its help is missing. Concurrent callers run one
  // after the other. The body must not call ParallelFor.
  void ParallelFor(int num_threads, int64_t num_items, int64_t chunk, Body body);

  static constexpr int kMaxThreads = 256;

 private:
  // Set in state_ while workers may join the job. The lower bits count the workers inside.
  static constexpr uint32_t kOpen = 1u << 31;

  // One thread's part of the items, on its own cache line against false sharing.
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  // The open job. Written only while no worker is inside.
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
  // Held during a ParallelFor; guards the workers and the job. Not an absl::Mutex, as
  // ThreadSanitizer does not instrument that library.
  std::mutex mutex_;
  std::vector<std::thread> workers_;
  std::atomic<bool> stopping_{false};
  std::unique_ptr<Part[]> parts_;
  Job job_;
  alignas(64) std::atomic<uint32_t> generation_{0};  // of the latest job; workers wait on it
  alignas(64) std::atomic<uint32_t> state_{0};
};

}  // namespace beamline::cpu
