// What a job of inputs costs, whatever is asked of them.
#pragma once

#include "engine/loading/loaded_model.h"
#include "engine/scheduling/encode_job.h"

namespace beamline {

// Of a job that has its inputs.
inline void SetCost(EncodeJob& job, const ModelFacts& model) {
  job.cost = 0;
  for (const TokenIds& ids : job.inputs) job.cost += static_cast<int64_t>(ids.size());
  job.input_tokens = job.cost;
  job.steps = 1 + job.cost / model.limits.max_batch_tokens;
  job.embeddings.resize(job.inputs.size());
}

}  // namespace beamline
