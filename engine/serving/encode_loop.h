// The step loop of an encoder: work-conserving batches by token budget, no timers. What has arrived
// when a step ends makes the next batch, by priority, fair share and arrival; an input is never
// padded or split.
#pragma once

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/encode_step_builder.h"
#include "engine/scheduling/job_list.h"
#include "engine/serving/step_loop.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Jobs have at least one input, each of 1 .. max_batch_tokens tokens.
class EncodeLoop : public StepLoop<EncodeJob> {
 public:
  EncodeLoop(const StepLimits& limits, const LoopContext& context)
      : StepLoop(context), builder_(limits) {}

  // Runs until the inbox is closed; jobs still there get CANCELLED. When the device fails, closes
  // the inbox; they get the fault then.
  void Run();

 private:
  absl::Status Compute();
  absl::Status ReadPooled(const Tensor& hidden, const EncodeSlice& slice);
  absl::Status ReadTokens(const Tensor& hidden, const EncodeSlice& slice);
  // What was read for a slice: a job whose values are not finite fails.
  bool CheckFinite(const EncodeSlice& slice, std::span<const float> values);
  void FinishCompleteJobs();
  void RemoveFinished();
  void ReportBatch(Clock::time_point started);

  JobList<EncodeJob> jobs_;
  EncodeStepBuilder builder_;
};

}  // namespace beamline
