// What a job of inputs costs, whatever is asked of them.
#pragma once

#include "engine/loading/loaded_model.h"
#include "engine/scheduling/encode_job.h"

namespace beamline {

// Of a job that has its inputs.
inline void SetCost(EncodeJob& job, const ModelFacts& model) {
  job.cost = 0;
  int64_t in_batches = 0;  // tokens of the inputs that a step holds whole
  job.steps = 1;
  for (const TokenIds& ids : job.inputs) {
    const auto num_tokens = static_cast<int64_t>(ids.size());
    job.cost += num_tokens;
    if (num_tokens > model.limits.max_batch_tokens) {
      job.steps += model.StepsOfLong(static_cast<int32_t>(num_tokens));
    } else {
      in_batches += num_tokens;
    }
  }
  job.input_tokens = job.cost;
  job.steps += in_batches / model.limits.max_batch_tokens;
  job.embeddings.resize(job.inputs.size());
}

}  // namespace beamline
