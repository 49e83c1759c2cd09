// The step loop of an encoder: work-conserving batches by token budget, no timers. What has arrived
// when a step ends makes the next batch, by priority, fair share and arrival; an input is never
// padded or split.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/engine.h"
#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/fair_queue.h"
#include "engine/serving/inbox.h"
#include "engine/serving/replica_fault.h"
#include "engine/serving/replica_stats.h"
#include "engine/transformer/transformer.h"

namespace beamline {

struct EncodeLoopOptions {
  std::string model;
  int32_t max_batch_tokens = 4096;
  int32_t max_sequences = 256;
  std::chrono::nanoseconds ageing = std::chrono::milliseconds(100);  // as PlannerLimits
};

class EncodeLoop {
 public:
  // Everything but the options outlives the loop; the observer may be null.
  EncodeLoop(const EncodeLoopOptions& options, Transformer& transformer, Backend& backend,
             ReplicaStats& stats, ReplicaFault& fault, EngineObserver* observer);

  // Jobs of at least one input, each of 1 .. max_batch_tokens tokens; any thread.
  Inbox<std::unique_ptr<EncodeJob>>& inbox() { return inbox_; }
  // Runs until the inbox is closed; jobs still there get CANCELLED. When the device fails, closes
  // the inbox; they get the fault then.
  void Run();

 private:
  // Inputs [begin, end) of one job, which are rows first .. of the batch.
  struct Slice {
    EncodeJob* job;
    size_t begin, end;
    int32_t first;
  };

  void Receive();
  void EndOverdue(Clock::time_point now);
  void Sort(Clock::time_point now);
  void BuildBatch(Clock::time_point now);
  absl::Status Compute();
  absl::Status ReadPooled(const Tensor& hidden, const Slice& slice);
  absl::Status ReadTokens(const Tensor& hidden, const Slice& slice);
  // What was read for a slice: a job whose values are not finite fails.
  bool CheckFinite(const Slice& slice, std::span<const float> values);
  void FinishCompleteJobs();
  // The step's error goes to every job; a device that failed for good ends the loop.
  void FailStep(const absl::Status& error);
  void Fail(EncodeJob& job, const absl::Status& status);
  void RemoveFinished();
  void Report(Clock::time_point started);

  EncodeLoopOptions options_;
  Transformer& transformer_;
  Backend& backend_;
  ReplicaStats& stats_;
  ReplicaFault& fault_;
  EngineObserver* observer_;

  Inbox<std::unique_ptr<EncodeJob>> inbox_;
  std::vector<std::unique_ptr<EncodeJob>> received_;
  bool open_ = true;
  FairQueue fair_queue_;
  std::vector<std::unique_ptr<EncodeJob>> jobs_;  // in WaitingOrder

  EncoderBatch batch_;
  std::vector<Slice> slices_;
};

}  // namespace beamline
