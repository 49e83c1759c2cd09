// Packs the inputs of encode jobs into the batch of a step: whole inputs by the jobs' order, until
// one does not fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/job_list.h"
#include "engine/scheduling/waiting_order.h"
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
  explicit EncodeStepBuilder(const StepLimits& limits) : limits_(limits) {}

  // Starts the inputs that fit, of the jobs in WaitingOrder. Each has at least one input, of 1 ..
  // max_batch_tokens tokens.
  void Build(JobList<EncodeJob>& jobs, Clock::time_point now);

  // Without sequences: nothing to encode.
  const EncoderBatch& batch() const { return batch_; }
  std::span<const EncodeSlice> slices() const { return slices_; }

 private:
  bool Fits(const TokenIds& input) const;

  const StepLimits limits_;
  EncoderBatch batch_;
  std::vector<EncodeSlice> slices_;
  WaitingTurns<EncodeJob> turns_;  // kept to reuse its memory
};

}  // namespace beamline
