// Threads that help a replica's own one where a device computes: what each group makes of a step's
// results (beams above all), its next rows and their places in a batch are the group's own
// business, and with hundreds of groups the device would wait for it. A thread meets the same
// groups each time, as far as it can: what it reads it has written last.
#pragma once

#include <memory>

#include "engine/runahead/pipeline.h"
#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"

namespace beamline {

class DecodeThreads {
 public:
  // Below so many groups a wake-up takes as long as the work.
  static constexpr size_t kFewestGroups = 64;
  static constexpr int kMostThreads = 4;

  // num_threads: the caller's among them; 1: nobody helps. REQUIRES: 1 to kMostThreads.
  explicit DecodeThreads(int num_threads);

  int num_threads() const { return num_threads_; }
  // Uses this object. Null where nobody helps.
  Pipeline::Parallel parallel();

 private:
  const int num_threads_;
  const std::unique_ptr<cpu::ThreadPool> pool_;  // null: nobody helps
};

// A thread for every four cores, for a backend that computes elsewhere; a CPU's own compute
// threads want all of them.
DecodeThreads DecodeThreadsFor(const Backend& backend);

}  // namespace beamline
