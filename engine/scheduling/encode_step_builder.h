// Packs the inputs of encode jobs into the batch of a step: whole inputs in the order of the jobs,
// until one does not fit. A long input is computed on its own, in pieces; meanwhile shorter inputs
// may pass another long one. The last eighth of a step ignores priorities and uses the
// fair-queueing order alone. So a job does not starve behind jobs of higher priority.
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

// Inputs [begin, end) of one job; they are sequences first, first + 1, ... of the batch.
struct EncodeSlice {
  EncodeJob* job = nullptr;
  size_t begin = 0, end = 0;
  int32_t first = 0;
};

class EncodeStepBuilder {
 public:
  explicit EncodeStepBuilder(const StepLimits& limits)
      : limits_(limits), most_whole_(limits.max_batch_tokens) {}

  // An input that arrives waits for the running step and then for its own step. If several clients
  // are active, a step may take this long per client. With kLeastTokens tokens a CPU already
  // reaches its full throughput.
  static constexpr double kSecondsOfClient = 0.015;
  static constexpr int64_t kLeastTokens = 256;
  // Maximum tokens of a step shared by `num_clients` clients, at `seconds_per_token` (0: unknown).
  static int64_t TokensOfStep(size_t num_clients, double seconds_per_token);

  // Inputs of more than `tokens` tokens count as long from now on. REQUIRES: 1 .. max_batch_tokens
  // (the initial value).
  void SetMostWhole(int64_t tokens) { most_whole_ = tokens; }
  // Starts the inputs that fit, with the jobs in WaitingOrder, up to `most_tokens` (>= 1); the
  // first input may exceed it. With `takes_long`, also starts the first long input. Each job has at
  // least one input, of 1 token or more.
  void Build(JobList<EncodeJob>& jobs, Clock::time_point now,
             int64_t most_tokens = std::numeric_limits<int64_t>::max(), bool takes_long = false);

  // Has no sequences if there is nothing to encode.
  const EncoderBatch& batch() const { return batch_; }
  std::span<const EncodeSlice> slices() const { return slices_; }
  // The long input that was started; it is a batch of its own.
  const std::optional<EncodeSlice>& long_slice() const { return long_slice_; }

 private:
  struct Room {
    int64_t tokens = 0;
    int32_t sequences = 0;
  };
  // Adds inputs in order until one does not fit into the room; the first may need more tokens.
  // Returns the job that did not fit. Null: all are started, except those that wait for a long
  // input.
  EncodeJob* Fill(Clock::time_point now, const Room& room);
  // The same for the inputs of one job.
  void FillFrom(EncodeJob& job, Clock::time_point now, const Room& room, bool& is_first);
  // Starts the job's next input; returns its index.
  size_t StartNext(EncodeJob& job, Clock::time_point now);
  bool IsLong(const TokenIds& input) const {
    return std::ssize(input) > std::ptrdiff_t{most_whole_};
  }
  // The job has no input left, or its next input waits for a long one to finish.
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
