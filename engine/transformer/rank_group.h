// The ranks of one model: a thread and a device each, that compute parts of it. Ranks that share
// layers do the same work at the same time; stages, which have layers of their own, do the same
// work one behind the other, and may have several pieces of it between them. They are threads of
// one process; or each is a process with a group of its own, whose one rank it is.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/rank_links.h"

namespace beamline {

class RankGroup {
 public:
  struct Rank {
    std::unique_ptr<Backend> backend;
    // Of the ranks that share the stage's layers; null: it has them alone.
    std::unique_ptr<Communicator> communicator;
    // Of the ranks that have the same share in each stage; null: there is one stage.
    std::unique_ptr<Communicator> stages = nullptr;
  };
  using Work = absl::FunctionRef<absl::Status(int rank)>;

  // Starts a thread for every rank; with one stage not for the first, whose thread is the one that
  // calls Run. REQUIRES: stage by stage, in the order of their communicators' ranks; at least two.
  explicit RankGroup(std::vector<Rank> ranks);
  // The part of one process, which `links` connect with the front or the followers: that rank of
  // the model's which RankOfProcess says. A thread watches: a fault of any connection fails all of
  // them, in the middle of what they do too.
  RankGroup(Rank rank, std::shared_ptr<RankLinks> links);
  // Of the ranks of a model, stage by stage, the one that process `process` has: the front, whose
  // process is 0, has the first of the last stage, where the results are; the others follow from
  // there on and go round.
  static int RankOfProcess(int process, int num_ranks, int num_stages);
  // What has been started is done first. After a fault of ranks that are processes it lets go of
  // their devices when none of them reaches for another's memory any more.
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  // Of this process; they are numbered from 0.
  int size() const { return static_cast<int>(ranks_.size()); }
  // Of the front: the connections with the ranks that are to be told what is called. Null: there
  // are none.
  RankLinks* followers() {
    return links_ != nullptr && links_->rank() == 0 ? links_.get() : nullptr;
  }
  Backend& backend(int rank) { return *ranks_[rank].backend; }
  const Backend& backend(int rank) const { return *ranks_[rank].backend; }
  // REQUIRES: several ranks to a stage.
  Communicator& communicator(int rank) { return *ranks_[rank].communicator; }
  // Of the ranks of a stage, null for one; and of the stages, null for one.
  Communicator* shares(int rank) { return ranks_[rank].communicator.get(); }
  Communicator* stages(int rank) { return ranks_[rank].stages.get(); }

  int num_stages() const { return num_stages_; }
  // Of all processes.
  int num_ranks() const { return links_ != nullptr ? links_->size() : size(); }
  int ranks_per_stage() const { return num_ranks() / num_stages_; }
  int StageOf(int rank) const { return (first_ + rank) / ranks_per_stage(); }
  // Whether it has the last layers, and so chooses tokens.
  bool Chooses(int rank) const { return StageOf(rank) == num_stages_ - 1; }
  // The first of those, where results are. Of a follower its rank, whose results nobody reads.
  int result_rank() const { return links_ != nullptr ? 0 : size() - ranks_per_stage(); }

  // Calls `work` on the thread of each rank and returns when all are done: OK, or the fault. A
  // rank's error fails the group, which ends the others' waits. After a fault nothing runs.
  // One thread at a time, for this and for Start.
  absl::Status Run(Work work);

  // The same without waiting, of several stages: each rank does what was started in this order.
  // Returns the number of the call. REQUIRES: num_stages() > 1.
  uint64_t Start(std::function<absl::Status(int rank)> work);
  // Whether all ranks are done with the call of this number.
  bool Done(uint64_t call) const;
  // Waits for that: OK, or the fault.
  absl::Status Wait(uint64_t call);
  // Waits for everything that was started.
  void Drain();

  // Fails the group for good. Only the first fault counts. Thread-safe.
  void Fail(const absl::Status& fault);
  // OK, or the first fault, be it a rank's or of what they do together. Thread-safe.
  absl::Status status() const;
  // The same, of all that the processes of other ranks have told by now: whether what this process
  // has computed counts. A rank that fails says so before it leaves a collective, in which it then
  // sends what is none. By the thread that calls Run and Start.
  absl::Status Look();

 private:
  RankGroup(std::vector<Rank> ranks, std::shared_ptr<RankLinks> links);

  struct Call {
    std::function<absl::Status(int rank)> work;
    int num_left = 0;  // threads that are not done with it
  };

  void AddConnections(int rank);
  void Watch();
  void EndThreads();
  void Part(const absl::Status& fault);
  uint64_t Post(std::function<absl::Status(int rank)> work);
  void WorkerLoop(int rank);
  void RunRank(int rank, Work work);
  bool DoneLocked(uint64_t call) const { return call < first_call_; }

  const std::shared_ptr<RankLinks> links_;  // null: all ranks are of this process
  std::vector<Rank> ranks_;
  const int num_stages_;
  const int first_;                         // of the model's ranks the first of this process
  std::vector<Communicator*> connections_;  // one end of each
  mutable std::mutex mutex_;                // guards all below
  std::condition_variable called_, done_, ending_;
  std::deque<Call> calls_;
  uint64_t first_call_ = 0;  // the number of calls_.front(); the calls before it are done
  bool stopping_ = false;
  absl::Status fault_;
  std::vector<std::thread> workers_;
  std::thread watch_;
};

}  // namespace beamline
