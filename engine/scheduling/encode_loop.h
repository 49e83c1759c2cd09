// The step loop of an encoder: work-conserving batches by token budget, no timers. What has arrived
// when a step ends makes the next batch, by priority, fair share and arrival; an input is never
// padded or split.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/fair_queue.h"
#include "engine/scheduling/inbox.h"
#include "engine/scheduling/replica_stats.h"
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
  // The transformer, the backend, the stats and the observer (may be null) outlive the loop.
  EncodeLoop(const EncodeLoopOptions& options, Transformer& transformer, Backend& backend,
             ReplicaStats& stats, EngineObserver* observer);

  // Jobs of at least one input, each of 1 .. max_batch_tokens tokens; any thread.
  Inbox<std::unique_ptr<EncodeJob>>& inbox() { return inbox_; }
  // Runs until the inbox is closed; jobs still there get CANCELLED.
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
  void FinishCompleteJobs();
  void Fail(EncodeJob& job, const absl::Status& status);
  void RemoveFinished();
  void Report(Clock::time_point started);

  EncodeLoopOptions options_;
  Transformer& transformer_;
  Backend& backend_;
  ReplicaStats& stats_;
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
