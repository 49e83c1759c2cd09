// The step loop of a model that encodes: work-conserving batches by token budget, no timers. What
// is made of the hidden states, each job says (engine/encoding). What has arrived when a step ends
// makes the next batch, by priority, fair share and arrival; an input is never padded, and not
// split unless it is longer than a step: then steps of it alone take turns with those of all others
// (docs/decisions/0063-long-inputs-in-pieces.md). A host's steps are short while several clients
// ask, so that one's many inputs do not delay another's few (docs/decisions/0053-short-steps.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/encoding/finish_step.h"
#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/encode_step_builder.h"
#include "engine/scheduling/job_list.h"
#include "engine/scheduling/recent_clients.h"
#include "engine/serving/step_loop.h"
#include "engine/serving/step_rate.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Jobs have at least one input, each of 1 .. max_batch_tokens tokens, or of as many as
// max_input_tokens where that is more.
class EncodeLoop : public StepLoop<EncodeJob> {
 public:
  // `heads` outlive the loop.
  EncodeLoop(const StepLimits& limits, const ModelHeads& heads, const LoopContext& context)
      : StepLoop(context),
        builder_(limits),
        finish_(context.transformer, context.backend, heads, limits.max_sequences),
        most_tokens_(limits.max_batch_tokens),
        has_short_steps_(!context.backend.Records() && context.transformer.ranked() == nullptr) {}

  // Runs until the inbox is closed; jobs still there get CANCELLED. When the device fails, closes
  // the inbox; they get the fault then.
  void Run();
  // A few steps by another thread, which has come into the place of Run's (Inbox::PutInPlace) and
  // has no WorkBatch, as long as `may_compute`, asked before each, says so; gives the place back.
  // The thread carries out brief answers itself.
  void RunInPlace(absl::FunctionRef<bool()> may_compute);

 private:
  // What comes while a slice is computed waits for its end, and slices lose little by being short.
  static constexpr double kSecondsOfSlice = 0.03;
  // An input that takes a host longer is computed in slices, where the model can be: others wait
  // for what is not cut.
  static constexpr double kSecondsWhole = 0.1;
  // Between two batches of what another thread waits for in the meantime.
  static constexpr int kMostStepsInPlace = 8;

  // The input that is computed in pieces.
  struct LongJob {
    EncodeSlice slice;
    int32_t num_computed = 0;  // of its tokens
    // Tokens that each of several other clients had in the batch before; else no bound.
    int64_t share = std::numeric_limits<int64_t>::max();
  };

  void Step(WorkBatch& posted);
  void StepOfBatch(Clock::time_point now);
  // A slice of the long input: kSecondsOfSlice, or what a full step of short inputs takes, or the
  // share of each client in the batch before, whichever is the least.
  void StepOfLong(Clock::time_point now);
  // The same as tokens of short inputs.
  int32_t TokensOfSlice() const;
  void BeginLong();
  void SetShareOfLong();
  // That the next step may have, about.
  int64_t StepTokens(Clock::time_point now);
  // Of an input that is not long.
  int64_t MostWhole();
  // Makes the answers of the slices' inputs. A job whose numbers are not finite fails.
  absl::Status MakeAnswers(const EncodedRows& rows, std::span<const EncodeSlice> slices);
  void FinishCompleteJobs(Clock::time_point now);
  // So many more tokens and inputs of a job are computed; answers it when that is all.
  void CountComputed(EncodeJob& job, int64_t num_tokens, size_t num_inputs, Clock::time_point now);
  // Whether some job waits for the rest of its inputs alone.
  bool HasBegun() const;
  void RemoveFinished();
  void ReportStep(int32_t num_tokens, int32_t num_sequences, Clock::time_point started,
                  Clock::time_point ended);

  JobList<EncodeJob> jobs_;
  EncodeStepBuilder builder_;
  FinishStep finish_;
  std::optional<LongJob> long_;
  bool long_is_next_ = false;  // the last step was a batch's
  StepRate long_rate_;         // of slices, for each of TokensOfSlice
  const int32_t most_tokens_;  // of a step
  // Of the host alone: a GPU's steps are short, and ranks wait for each other in each.
  const bool has_short_steps_;
  RecentClients clients_;
  std::vector<JobPart> parts_;  // of one call of MakeAnswers; kept for its memory
};

}  // namespace beamline
