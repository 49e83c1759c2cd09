#include "engine/scheduling/encode_step_builder.h"

#include <algorithm>

namespace beamline {

int64_t EncodeStepBuilder::TokensOfStep(size_t num_clients, double seconds_per_token) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  const double seconds = kSecondsOfClient * static_cast<double>(num_clients);
  if (num_clients < 2 || seconds_per_token <= seconds / static_cast<double>(kAny)) return kAny;
  return std::max(kLeastTokens, static_cast<int64_t>(seconds / seconds_per_token));
}

void EncodeStepBuilder::Build(JobList<EncodeJob>& jobs, Clock::time_point now, int64_t most_tokens,
                              bool takes_long) {
  turns_.Start(jobs.turns(), now);
  for (const auto& job : jobs.begun()) {
    if (job->num_started < job->inputs.size()) turns_.Add(*job);
  }
  batch_.token_ids.clear();
  batch_.type_ids.clear();
  batch_.offsets.assign(1, 0);
  slices_.clear();
  long_slice_.reset();
  takes_long_ = takes_long;
  const Room all = {std::min<int64_t>(most_tokens, limits_.max_batch_tokens),
                    limits_.max_sequences};
  if (!turns_.has_priorities()) {
    Fill(now, all);
  } else if (EncodeJob* const next =
                 Fill(now, {all.tokens - all.tokens / 8, all.sequences - all.sequences / 8})) {
    turns_.ForgetPriorities(*next);
    Fill(now, all);
  }
  // Only now, because turns_ refers to the waiting jobs.
  for (const EncodeSlice& slice : slices_) jobs.PutToBegun(*slice.job);
  if (long_slice_.has_value()) jobs.PutToBegun(*long_slice_->job);
  if (!batch_.type_ids.empty()) batch_.type_ids.resize(batch_.token_ids.size(), 0);
}

EncodeJob* EncodeStepBuilder::Fill(Clock::time_point now, const Room& room) {
  bool is_first = true;
  while (EncodeJob* const job = turns_.Next()) {
    FillFrom(*job, now, room, is_first);
    if (takes_long_ && job->num_started < job->inputs.size() &&
        IsLong(job->inputs[job->num_started])) {
      takes_long_ = false;
      const size_t index = StartNext(*job, now);
      long_slice_ = {job, index, index + 1, 0};
      FillFrom(*job, now, room, is_first);
    }
    if (!MayBePassed(*job)) return job;  // no other job may pass it
  }
  return nullptr;
}

void EncodeStepBuilder::FillFrom(EncodeJob& job, Clock::time_point now, const Room& room,
                                 bool& is_first) {
  const size_t begin = job.num_started;
  const int32_t first = batch_.num_sequences();
  while (job.num_started < job.inputs.size() && Fits(job.inputs[job.num_started], room, is_first)) {
    is_first = false;
    Append(job, StartNext(job, now));
  }
  if (job.num_started > begin) slices_.push_back({&job, begin, job.num_started, first});
}

size_t EncodeStepBuilder::StartNext(EncodeJob& job, Clock::time_point now) {
  const size_t index = job.num_started++;
  job.Begin(now);
  job.rank.fair_tag += static_cast<int64_t>(job.inputs[index].size());
  return index;
}

bool EncodeStepBuilder::Fits(const TokenIds& input, const Room& room, bool is_first) const {
  const auto tokens = static_cast<int64_t>(batch_.token_ids.size() + input.size());
  return !IsLong(input) && batch_.num_sequences() < room.sequences &&
         tokens <= (is_first ? limits_.max_batch_tokens : room.tokens);
}

void EncodeStepBuilder::Append(const EncodeJob& job, size_t index) {
  const TokenIds& input = job.inputs[index];
  if (!job.type_ids.empty()) {
    const TokenIds& types = job.type_ids[index];
    batch_.type_ids.resize(batch_.token_ids.size(), 0);  // zeros for the inputs without types
    batch_.type_ids.insert(batch_.type_ids.end(), types.begin(), types.end());
  }
  batch_.token_ids.insert(batch_.token_ids.end(), input.begin(), input.end());
  batch_.offsets.push_back(static_cast<int32_t>(batch_.token_ids.size()));
}

}  // namespace beamline
