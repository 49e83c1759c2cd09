#include "engine/loading/synthetic_steps.h"

#include <algorithm>

#include "base/math.h"
#include "engine/runahead/make_device_steps.h"
#include "engine/scheduling/job_list.h"
#include "engine/transformer/long_input.h"

namespace beamline {

SyntheticSteps::SyntheticSteps(const StepLimits& limits, int32_t num_candidates,
                               Transformer& transformer, Backend& backend)
    : limits_(limits),
      transformer_(transformer),
      spec_(transformer.spec()),
      backend_(backend),
      request_({.num_candidates = num_candidates, .samples = {SampleRow()}}),
      cache_(limits.num_blocks, limits.block_size, /*share_prefixes=*/false),
      steps_(MakeDeviceSteps(transformer, backend)) {}

absl::Status SyntheticSteps::Encode(int32_t num_tokens) {
  for (const auto& group : groups_) cache_.Release(*group);
  groups_.clear();
  const std::vector<int32_t> lengths = Lengths(num_tokens, spec_.encoder->max_positions);
  return spec_.decoder.has_value() ? EncodeMemory(lengths) : EncodeAlone(lengths);
}

absl::Status SyntheticSteps::EncodeAlone(std::span<const int32_t> lengths) {
  auto job = std::make_unique<EncodeJob>();
  for (const int32_t length : lengths) job->inputs.emplace_back(length, 0);
  JobList<EncodeJob> jobs;
  jobs.Add(std::move(job));
  EncodeStepBuilder builder(limits_);
  builder.Build(jobs, Clock::now());
  const EncoderBatch& batch = builder.batch();
  transformer_.Pool(batch, transformer_.Encode(batch), Pooling::kMean, /*normalize=*/true);
  return backend_.Synchronize();
}

absl::Status SyntheticSteps::EncodeLong() {
  LongInput& input = *transformer_.long_input();
  input.ComputeLargest();
  const Tensor hidden = input.hidden();
  EncoderBatch whole;
  whole.offsets = {0, static_cast<int32_t>(hidden.dim(0))};
  transformer_.Pool(whole, hidden, Pooling::kMean, /*normalize=*/true);
  return backend_.Synchronize();
}

absl::Status SyntheticSteps::EncodeMemory(std::span<const int32_t> lengths) {
  StepPlan plan;
  for (const int32_t length : lengths) {
    plan.encode.push_back(static_cast<int32_t>(groups_.size()));
    groups_.push_back(std::make_unique<Group>());
    groups_.back()->encoder_ids.assign(length, 0);
  }
  return Compute(plan);
}

absl::Status SyntheticSteps::Prefill(int32_t num_tokens, int32_t num_logits) {
  Group& group = Reader();
  const std::vector<int32_t> lengths = Lengths(num_tokens, spec_.decoder->max_positions);
  auto rows_left = static_cast<int32_t>(lengths.size());
  for (const int32_t length : lengths) {
    --rows_left;
    Sequence& row = group.rows.emplace_back();
    row.tokens.assign(length, 0);
    row.num_logits = std::clamp(num_logits - rows_left, 1, length);
    num_logits -= row.num_logits;
  }
  return ComputeRows(group);
}

absl::Status SyntheticSteps::Decode(int32_t num_rows, int32_t num_blocks) {
  Group& group = Reader();
  num_rows = std::min(num_rows, MostRows(num_blocks));
  if (num_rows > 0) {
    // The row has its blocks in advance and begins at its first position: there is nothing in them
    // that it could attend to.
    Sequence& widest = group.rows.emplace_back();
    std::vector<BlockCopy> copies;
    cache_.Grow(group, widest, num_blocks * limits_.block_size, copies);
    widest.num_computed = 0;
  }
  group.rows.resize(num_rows);
  for (Sequence& row : group.rows) row.tokens.assign(1, 0);
  return ComputeRows(group);
}

int32_t SyntheticSteps::MostRows(int32_t num_blocks) const {
  const int32_t free_blocks = cache_.pool().num_free() - (num_blocks - 1);
  return std::clamp(free_blocks, 0, limits_.max_decode_rows());
}

std::vector<int32_t> SyntheticSteps::Lengths(int32_t num_tokens, int32_t longest) const {
  num_tokens = std::min(num_tokens, limits_.max_batch_tokens);
  int64_t free_slots = num_tokens;
  if (spec_.decoder.has_value()) {
    free_slots = int64_t{cache_.pool().num_free()} * limits_.block_size;
  }
  std::vector<int32_t> lengths;
  while (num_tokens > 0 && free_slots > 0 &&
         static_cast<int32_t>(lengths.size()) < limits_.max_sequences) {
    lengths.push_back(static_cast<int32_t>(std::min<int64_t>({num_tokens, longest, free_slots})));
    num_tokens -= lengths.back();
    free_slots -= RoundUp(lengths.back(), limits_.block_size);
  }
  return lengths;
}

Group& SyntheticSteps::Reader() {
  if (groups_.empty()) groups_.push_back(std::make_unique<Group>());
  for (size_t i = 1; i < groups_.size(); ++i) cache_.Release(*groups_[i]);
  groups_.resize(1);
  return *groups_.front();
}

absl::Status SyntheticSteps::ComputeRows(Group& group) {
  StepPlan plan;
  for (const Sequence& row : group.rows) {
    plan.chunks.push_back(
        {0, static_cast<int32_t>(plan.chunks.size()), static_cast<int32_t>(row.tokens.size())});
  }
  const absl::Status status = Compute(plan);
  GroupCache::Workspace workspace;
  cache_.Fork(group, {}, workspace);  // the rows end, the memory stays
  cache_.Free(workspace);
  return status;
}

absl::Status SyntheticSteps::Compute(const StepPlan& plan) {
  if (plan.encode.empty() && plan.chunks.empty()) return absl::OkStatus();
  std::vector<Group*> groups;
  for (const auto& group : groups_) groups.push_back(group.get());
  std::vector<std::vector<RowState>> rows(groups.size());
  std::vector<GroupState> states(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) {
    for (const Sequence& row : groups[i]->rows) rows[i].push_back(cache_.StateOf(row));
    states[i].rows = rows[i];
  }
  builder_.Build(plan, groups, states, cache_);
  const std::vector<const RowRequest*> requests(builder_.step_batch().logits_rows.size(),
                                                &request_);
  DeviceStep& step = *steps_.front();
  const absl::Status started = step.Start(builder_, DeviceEdits(), requests, {});
  return started.ok() ? step.Wait() : started;
}

}  // namespace beamline
