// The step loop of an encoder: work-conserving batches by token budget, no timers. What has arrived
// when a step ends makes the next batch, by priority, fair share and arrival; an input is never
// padded or split.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/job_list.h"
#include "engine/serving/step_loop.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Jobs have at least one input, each of 1 .. max_batch_tokens tokens.
class EncodeLoop : public StepLoop<EncodeJob> {
 public:
  EncodeLoop(const StepLimits& limits, const LoopContext& context)
      : StepLoop(context), limits_(limits) {}

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

  void Sort(Clock::time_point now);
  void BuildBatch(Clock::time_point now);
  absl::Status Compute();
  absl::Status ReadPooled(const Tensor& hidden, const Slice& slice);
  absl::Status ReadTokens(const Tensor& hidden, const Slice& slice);
  // What was read for a slice: a job whose values are not finite fails.
  bool CheckFinite(const Slice& slice, std::span<const float> values);
  void FinishCompleteJobs();
  void RemoveFinished();
  void ReportBatch(Clock::time_point started);

  const StepLimits limits_;
  JobList<EncodeJob> jobs_;  // in WaitingOrder
  EncoderBatch batch_;
  std::vector<Slice> slices_;
};

}  // namespace beamline
