#include "engine/scheduling/encode_step_builder.h"

namespace beamline {

void EncodeStepBuilder::Build(JobList<EncodeJob>& jobs, Clock::time_point now) {
  turns_.Start(now);
  for (const auto& job : jobs.jobs()) {
    if (job->num_started < job->inputs.size()) turns_.Add(*job);
  }
  batch_.token_ids.clear();
  batch_.type_ids.clear();
  batch_.offsets.assign(1, 0);
  slices_.clear();
  while (EncodeJob* const job = turns_.Next()) {
    const size_t begin = job->num_started;
    const int32_t first = batch_.num_sequences();
    while (job->num_started < job->inputs.size() && Fits(job->inputs[job->num_started])) {
      const size_t index = job->num_started++;
      const TokenIds& input = job->inputs[index];
      jobs.Begin(*job, now);
      job->rank.fair_tag += static_cast<int64_t>(input.size());
      if (!job->type_ids.empty()) {
        const TokenIds& types = job->type_ids[index];
        batch_.type_ids.resize(batch_.token_ids.size(), 0);  // of the inputs without types
        batch_.type_ids.insert(batch_.type_ids.end(), types.begin(), types.end());
      }
      batch_.token_ids.insert(batch_.token_ids.end(), input.begin(), input.end());
      batch_.offsets.push_back(static_cast<int32_t>(batch_.token_ids.size()));
    }
    if (job->num_started > begin) slices_.push_back({job, begin, job->num_started, first});
    if (job->num_started < job->inputs.size()) break;  // nobody passes the one that is next
  }
  if (!batch_.type_ids.empty()) batch_.type_ids.resize(batch_.token_ids.size(), 0);
}

bool EncodeStepBuilder::Fits(const TokenIds& input) const {
  return batch_.num_sequences() < limits_.max_sequences &&
         static_cast<int64_t>(batch_.token_ids.size() + input.size()) <= limits_.max_batch_tokens;
}

}  // namespace beamline
