#include "engine/scheduling/encode_step_builder.h"

#include <algorithm>

#include "engine/scheduling/waiting_order.h"

namespace beamline {

void EncodeStepBuilder::Build(JobList<EncodeJob>& jobs, Clock::time_point now) {
  Sort(jobs, now);
  batch_.token_ids.clear();
  batch_.type_ids.clear();
  batch_.offsets.assign(1, 0);
  slices_.clear();
  for (const auto& job : jobs.jobs()) {
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
    if (job->num_started > begin) slices_.push_back({job.get(), begin, job->num_started, first});
    if (job->num_started < job->inputs.size()) break;  // nobody passes the one that is next
  }
  if (!batch_.type_ids.empty()) batch_.type_ids.resize(batch_.token_ids.size(), 0);
}

void EncodeStepBuilder::Sort(JobList<EncodeJob>& jobs, Clock::time_point now) const {
  if (jobs.jobs().size() < 2) return;
  WaitingOrder order(now);
  for (const auto& job : jobs.jobs()) order.Add(job->rank);
  std::ranges::stable_sort(jobs.jobs(),
                           [&](const auto& a, const auto& b) { return order(a->rank, b->rank); });
}

bool EncodeStepBuilder::Fits(const TokenIds& input) const {
  return batch_.num_sequences() < limits_.max_sequences &&
         static_cast<int64_t>(batch_.token_ids.size() + input.size()) <= limits_.max_batch_tokens;
}

}  // namespace beamline
