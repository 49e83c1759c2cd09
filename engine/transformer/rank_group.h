// The ranks of one model: a thread, a device and a communicator each, that do the same work at the
// same time on parts of their own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace beamline {

class RankGroup {
 public:
  struct Rank {
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Communicator> communicator;
  };
  using Work = absl::FunctionRef<absl::Status(int rank)>;

  // Starts a thread for every rank but the first, whose thread is the one that calls Run.
  // REQUIRES: in the order of their communicators' ranks; at least two.
  explicit RankGroup(std::vector<Rank> ranks);
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  Backend& backend(int rank) { return *ranks_[rank].backend; }
  const Backend& backend(int rank) const { return *ranks_[rank].backend; }
  Communicator& communicator(int rank) { return *ranks_[rank].communicator; }

  // Calls `work` on the thread of each rank and returns when all are done: OK, or the fault. A
  // rank's error fails the group, which ends the others' collectives. After a fault nothing runs.
  // One thread at a time.
  absl::Status Run(Work work);

  // Fails the group for good. Only the first fault counts. Thread-safe.
  void Fail(const absl::Status& fault);
  // OK, or the first fault, be it a rank's or of what they do together. Thread-safe.
  absl::Status status() const;

 private:
  void WorkerLoop(int rank);
  void RunRank(int rank, Work work);

  std::vector<Rank> ranks_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable called_, done_;
  const Work* work_ = nullptr;
  uint64_t num_calls_ = 0;
  int num_running_ = 0;  // workers
  bool stopping_ = false;
  absl::Status fault_;
  std::vector<std::thread> workers_;  // of ranks 1, 2, ...
};

}  // namespace beamline
