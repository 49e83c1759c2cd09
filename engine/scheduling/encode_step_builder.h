// Packs the inputs of encode jobs into the batch of a step: whole inputs by the jobs' order, until
// one does not fit. One that is long goes by itself, in pieces; while another one does, it is
// passed by those that are shorter. The last eighth goes by turns alone, whatever the jobs'
// priorities: no job waits for those of higher priority longer than for those before it in turn.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/job_list.h"
#include "engine/scheduling/waiting_turns.h"
#include "engine/transformer/step_limits.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Inputs [begin, end) of one job, which are sequences first .. of the batch.
struct EncodeSlice {
  EncodeJob* job = nullptr;
  size_t begin = 0, end = 0;
  int32_t first = 0;
};

class EncodeStepBuilder {
 public:
  explicit EncodeStepBuilder(const StepLimits& limits)
      : limits_(limits), most_whole_(limits.max_batch_tokens) {}

  // What comes waits for the step that is under way, and for its own: while several clients ask,
  // these have so much time for each of them. With so many tokens a host computes as many a second
  // as with more.
  static constexpr double kSecondsOfClient = 0.015;
  static constexpr int64_t kLeastTokens = 256;
  // Of a step that so many clients share, at `seconds_per_token` (0: not known).
  static int64_t TokensOfStep(size_t num_clients, double seconds_per_token);

  // Inputs of more tokens are long from now on. REQUIRES: 1 .. max_batch_tokens, which it is at
  // first.
  void SetMostWhole(int64_t tokens) { most_whole_ = tokens; }
  // Starts the inputs that fit, of the jobs in WaitingOrder, up to `most_tokens` (>= 1) or what one
  // input has more, and with `takes_long` the first long one. Each job has at
  // least one input, of 1 token or more.
  void Build(JobList<EncodeJob>& jobs, Clock::time_point now,
             int64_t most_tokens = std::numeric_limits<int64_t>::max(), bool takes_long = false);

  // Without sequences: nothing to encode.
  const EncoderBatch& batch() const { return batch_; }
  std::span<const EncodeSlice> slices() const { return slices_; }
  // The long input that was started: a batch by itself.
  const std::optional<EncodeSlice>& long_slice() const { return long_slice_; }

 private:
  struct Room {
    int64_t tokens = 0;
    int32_t sequences = 0;
  };
  // Adds inputs in turn until one does not fit into the room, of which the first may need more
  // tokens. Returns the job that is next, or null: all have been started, but for those that wait
  // for a long input.
  EncodeJob* Fill(Clock::time_point now, const Room& room);
  // The same of one job's.
  void FillFrom(EncodeJob& job, Clock::time_point now, const Room& room, bool& is_first);
  // Starts the job's next input.
  size_t StartNext(EncodeJob& job, Clock::time_point now);
  bool IsLong(const TokenIds& input) const {
    return std::ssize(input) > std::ptrdiff_t{most_whole_};
  }
  // It has no input left, or its next one waits for the end of a long one.
  bool MayBePassed(const EncodeJob& job) const {
    return job.num_started == job.inputs.size() || IsLong(job.inputs[job.num_started]);
  }
  bool Fits(const TokenIds& input, const Room& room, bool is_first) const;
  void Append(const EncodeJob& job, size_t index);

  const StepLimits limits_;
  int64_t most_whole_;
  EncoderBatch batch_;
  std::vector<EncodeSlice> slices_;
  std::optional<EncodeSlice> long_slice_;
  bool takes_long_ = false;
  WaitingTurns<EncodeJob> turns_;  // kept to reuse its memory
};

}  // namespace beamline
