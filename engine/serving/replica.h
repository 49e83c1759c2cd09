// One thread and one device that serve one model.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include "engine/api/engine.h"
#include "engine/loading/loaded_model.h"
#include "engine/serving/encode_loop.h"
#include "engine/serving/generate_loop.h"
#include "engine/serving/replica_fault.h"
#include "engine/serving/replica_stats.h"

namespace beamline {

class Replica {
 public:
  // Starts the thread. The observer may be null; otherwise it outlives the replica.
  Replica(std::unique_ptr<LoadedModel> model, EngineObserver* observer);
  // Requests still running get CANCELLED.
  ~Replica();

  // Hands a request over; when the replica is ending, its sink gets CANCELLED, and when its device
  // has failed, that fault. REQUIRES: the model's task.
  void Submit(std::unique_ptr<Group> group);
  void Submit(std::unique_ptr<EncodeJob> job);

  const LoadedModel& model() const { return *model_; }
  ReplicaFault& fault() { return fault_; }
  const ReplicaFault& fault() const { return fault_; }
  ReplicaStats& stats() { return stats_; }
  const ReplicaStats& stats() const { return stats_; }

 private:
  std::unique_ptr<LoadedModel> model_;
  ReplicaStats stats_;
  ReplicaFault fault_;
  std::optional<GenerateLoop> generate_;
  std::optional<EncodeLoop> encode_;
  std::thread thread_;
};

}  // namespace beamline
