#include "engine/scheduling/selector.h"

#include <algorithm>

#include "kernels/status.h"

namespace beamline {

absl::Status Selector::Reserve(size_t bytes) {
  if (buffer_ != nullptr && buffer_->size() >= bytes) return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(buffer_, backend_.Allocate(2 * bytes));
  return absl::OkStatus();
}

absl::Status Selector::Select(const Tensor& logits, std::span<const RowRequest* const> requests) {
  results_.assign(requests.size(), RowResult());
  BEAMLINE_RETURN_IF_ERROR(FindCandidates(logits, requests));
  return Draw(logits, requests);
}

absl::Status Selector::FindCandidates(const Tensor& logits,
                                      std::span<const RowRequest* const> requests) {
  const size_t num_rows = requests.size();
  edits_.clear();
  normalize_first_.clear();
  counts_.clear();
  for (const RowRequest* request : requests) {
    edits_.push_back(request->edits);
    normalize_first_.push_back(request->normalize_first ? 1 : 0);
    counts_.push_back(request->num_candidates);
  }
  const int32_t max_count = *std::max_element(counts_.begin(), counts_.end());
  const size_t num_entries = num_rows * max_count;
  BEAMLINE_RETURN_IF_ERROR(Reserve((3 * num_entries + num_rows) * sizeof(float)));

  TopCandidatesParams params;
  params.logits = logits;
  params.edits = edits_;
  params.normalize_first = normalize_first_;
  params.counts = counts_;
  params.max_count = max_count;
  params.values = static_cast<float*>(buffer_->data());
  params.raw_values = params.values + num_entries;
  params.ids = reinterpret_cast<int32_t*>(params.raw_values + num_entries);
  params.log_normalizers = reinterpret_cast<float*>(params.ids + num_entries);
  backend_.TopCandidates(params);

  values_.resize(num_entries);
  raw_values_.resize(num_entries);
  ids_.resize(num_entries);
  log_normalizers_.resize(num_rows);
  const size_t bytes = num_entries * sizeof(float);
  BEAMLINE_RETURN_IF_ERROR(backend_.CopyToHost(params.values, values_.data(), bytes));
  BEAMLINE_RETURN_IF_ERROR(backend_.CopyToHost(params.raw_values, raw_values_.data(), bytes));
  BEAMLINE_RETURN_IF_ERROR(backend_.CopyToHost(params.ids, ids_.data(), bytes));
  BEAMLINE_RETURN_IF_ERROR(backend_.CopyToHost(params.log_normalizers, log_normalizers_.data(),
                                               num_rows * sizeof(float)));
  for (size_t row = 0; row < num_rows; ++row) {
    RowResult& result = results_[row];
    const size_t begin = row * max_count;
    result.ids = {ids_.data() + begin, static_cast<size_t>(counts_[row])};
    result.values = {values_.data() + begin, static_cast<size_t>(counts_[row])};
    result.raw_values = {raw_values_.data() + begin, static_cast<size_t>(counts_[row])};
    result.log_normalizer = log_normalizers_[row];
  }
  return absl::OkStatus();
}

absl::Status Selector::Draw(const Tensor& logits, std::span<const RowRequest* const> requests) {
  samples_.clear();
  for (size_t row = 0; row < requests.size(); ++row) {
    for (SampleRow sample : requests[row]->samples) {
      sample.row = static_cast<int32_t>(row);
      samples_.push_back(sample);
    }
  }
  if (samples_.empty()) return absl::OkStatus();
  const size_t count = samples_.size();
  BEAMLINE_RETURN_IF_ERROR(Reserve(2 * count * sizeof(float)));

  SampleParams params;
  params.logits = logits;
  params.rows = samples_;
  params.ids = static_cast<int32_t*>(buffer_->data());
  params.values = reinterpret_cast<float*>(params.ids + count);
  backend_.Sample(params);

  sampled_ids_.resize(count);
  sampled_values_.resize(count);
  BEAMLINE_RETURN_IF_ERROR(
      backend_.CopyToHost(params.ids, sampled_ids_.data(), count * sizeof(int32_t)));
  BEAMLINE_RETURN_IF_ERROR(
      backend_.CopyToHost(params.values, sampled_values_.data(), count * sizeof(float)));
  size_t next = 0;
  for (size_t row = 0; row < requests.size(); ++row) {
    const size_t draws = requests[row]->samples.size();
    results_[row].sampled_ids = {sampled_ids_.data() + next, draws};
    results_[row].sampled_values = {sampled_values_.data() + next, draws};
    next += draws;
  }
  return absl::OkStatus();
}

}  // namespace beamline
