// One thread and one device that serve one model.
#pragma once

#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/check.h"
#include "base/thread_name.h"
#include "engine/api/observer.h"
#include "engine/loading/loaded_model.h"
#include "engine/serving/encode_loop.h"
#include "engine/serving/generate_loop.h"
#include "engine/serving/replica_fault.h"
#include "engine/serving/replica_stats.h"
#include "kernels/cpu/core_sets.h"

namespace beamline {

class Replica : public std::enable_shared_from_this<Replica> {
 public:
  // Starts the thread. The observer may be null; otherwise it outlives the replica.
  Replica(std::unique_ptr<LoadedModel> model, EngineObserver* observer);
  // Requests still running get CANCELLED.
  ~Replica() { Stop(); }

  // Ends the thread: requests that it has, and those that are still submitted, get `why`, or the
  // fault of the device. Not twice at a time.
  void Stop(const absl::Status& why = absl::CancelledError("the server is shutting down"));

  // Hands a request over; when the replica is ending, it is answered CANCELLED, and when its device
  // has failed, with that fault. REQUIRES: the model's task.
  void Submit(std::unique_ptr<Group> group) { Put(generate_, std::move(group)); }
  // Where the replica sleeps and a GPU computes its steps, a calling thread that waits for the
  // answer (base/waiting_thread.h) may be left the step.
  void Submit(std::unique_ptr<EncodeJob> job);

  // What its thread has; nullopt when it does not tell by `until`.
  std::optional<std::vector<JobSnapshot>> Snapshot(Clock::time_point until) {
    const auto wake = [this] {
      if (generate_.has_value()) generate_->inbox().Wake();
      if (encode_.has_value()) encode_->inbox().Wake();
    };
    return stats_.snapshots.Ask(wake, until);
  }

  // Has its thread, should it have nothing to compute, give the memory of activations that larger
  // steps have touched back to the system. On a CPU; any thread.
  void ReturnIdleMemory() {
    if (model_->on_gpu) return;
    stats_.memory_wanted = true;
    if (generate_.has_value()) generate_->inbox().Wake();
    if (encode_.has_value()) encode_->inbox().Wake();
  }

  const LoadedModel& model() const { return *model_; }
  ReplicaFault& fault() { return fault_; }
  const ReplicaFault& fault() const { return fault_; }
  ReplicaStats& stats() { return stats_; }
  const ReplicaStats& stats() const { return stats_; }

 private:
  template <typename Loop>
  void Compute(Loop& loop) {
    NameThisThread("steps");
    cpu::RunOn(model_->cores);
    loop.Run();
  }
  template <typename Loop, typename JobType>
  void Put(std::optional<Loop>& loop, std::unique_ptr<JobType> job) {
    BEAMLINE_CHECK(loop.has_value());
    if (!loop->inbox().Put(job)) job->Answer(fault_.EndStatus());
  }

  std::unique_ptr<LoadedModel> model_;
  const bool any_may_launch_;  // a thread that waits may run a step
  ReplicaStats stats_;
  ReplicaFault fault_;
  std::optional<GenerateLoop> generate_;
  std::optional<EncodeLoop> encode_;
  std::thread thread_;
};

}  // namespace beamline
