// State shared by all operators of one CPU backend: its threads and their scratch memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace beamline::cpu {

class Context {
 public:
  using Body = absl::FunctionRef<void(int64_t begin, int64_t end, Scratch& scratch)>;

  // Uses up to num_threads threads of the process's pool. With `own_pool` or `cores` it has its own
  // pool, whose workers run on these cores.
  explicit Context(int num_threads, bool own_pool = false, const std::vector<int>& cores = {});

  int num_threads() const { return num_threads_; }

  // Runs body over [0, num_items). Uses all threads if `cost_ns`, the estimated time on one thread,
  // outweighs waking them; otherwise runs on the calling thread. Threads take `chunk` items at a
  // time.
  void Run(int64_t num_items, int64_t chunk, double cost_ns, Body body);

 private:
  int num_threads_;
  const std::unique_ptr<ThreadPool> own_pool_;  // null: the process's pool
  ThreadPool& pool_;
  std::unique_ptr<Scratch[]> scratch_;  // [num_threads]
};

}  // namespace beamline::cpu
