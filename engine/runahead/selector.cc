#include "engine/runahead/selector.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "base/status.h"

namespace beamline {
namespace {

// A second normalisation replaces the first one, unless a repetition penalty was applied in
// between.
uint8_t NormalizationFor(const RowRequest& request) {
  if (!request.renormalize) return request.normalize_first ? kNormalizeFirst : kEditLogits;
  const LogitsEdits* edits = request.edits;
  const bool multiplies =
      edits != nullptr && edits->repetition_penalty != 1.0f && !edits->penalties.empty();
  return multiplies ? kNormalizeInPlace : kEditLogits;
}

}  // namespace

absl::Status Selector::Prepare(std::span<const RowRequest* const> requests,
                               std::span<const BeamSearch> searches) {
  if (IsPrepared(requests, searches)) return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(read_back_, backend_.AllocateReadBack(2 * ReadBackBytes()));
  return absl::OkStatus();
}

bool Selector::IsPrepared(std::span<const RowRequest* const> requests,
                          std::span<const BeamSearch> searches) {
  Collect(requests);
  CollectSearches(searches);
  return read_back_ != nullptr && read_back_->size() >= ReadBackBytes();
}

size_t Selector::ReadBackBytes() const {
  return std::max<size_t>(layout_.num_words, 1) * sizeof(float);
}

absl::Status Selector::Start(const Tensor& logits, absl::FunctionRef<Tensor(int64_t)> more_logits,
                             std::span<const RowRequest* const> requests,
                             std::span<const BeamSearch> searches, const int32_t* words) {
  BEAMLINE_RETURN_IF_ERROR(Prepare(requests, searches));
  if (!requests.empty()) BEAMLINE_RETURN_IF_ERROR(Choose(logits, 0));
  for (auto next = static_cast<size_t>(logits.num_rows()); next < requests.size();) {
    const Tensor piece = more_logits(static_cast<int64_t>(next));
    BEAMLINE_CHECK(piece.num_rows() > 0);
    BEAMLINE_RETURN_IF_ERROR(Choose(piece, next));
    next += static_cast<size_t>(piece.num_rows());
  }
  if (!searches.empty()) AdvanceBeams(searches, words);
  read_back_->Start(layout_.num_words * sizeof(float));
  return absl::OkStatus();
}

absl::Status Selector::Wait() {
  BEAMLINE_RETURN_IF_ERROR(read_back_->Wait());
  results_.resize(counts_.size());
  if (renormalizes_) renormalized_.resize(counts_.size() * max_count_);
  return absl::OkStatus();
}

int32_t Selector::TokenWord(int32_t request, int32_t draw) const {
  return static_cast<int32_t>(draw < 0 ? layout_.ids + static_cast<size_t>(request) * max_count_
                                       : layout_.sampled_ids +
                                             static_cast<size_t>(first_draws_[request]) + draw);
}

BeamWords Selector::SearchWords(int32_t search) const {
  const auto beam = static_cast<size_t>(first_beams_[search]);
  return {static_cast<int32_t>(layout_.parents + beam), static_cast<int32_t>(layout_.tokens + beam),
          static_cast<int32_t>(layout_.scores + beam)};
}

void Selector::Collect(std::span<const RowRequest* const> requests) {
  const size_t num_rows = requests.size();
  edits_.resize(num_rows);
  normalize_first_.resize(num_rows);
  renormalize_.resize(num_rows);
  counts_.resize(num_rows);
  first_draws_.resize(num_rows);
  samples_.clear();
  max_count_ = 0;
  for (size_t row = 0; row < num_rows; ++row) {
    const RowRequest& request = *requests[row];
    edits_[row] = request.edits;
    normalize_first_[row] = NormalizationFor(request);
    renormalize_[row] = request.renormalize ? 1 : 0;
    counts_[row] = request.num_candidates;
    max_count_ = std::max(max_count_, request.num_candidates);
    first_draws_[row] = static_cast<int32_t>(samples_.size());
    for (SampleRow sample : request.samples) {
      sample.row = static_cast<int32_t>(row);
      samples_.push_back(sample);
    }
  }
  const size_t num_entries = requests.size() * max_count_;
  layout_.values = 0;
  layout_.raw_values = num_entries;
  layout_.ids = 2 * num_entries;
  layout_.log_normalizers = 3 * num_entries;
  layout_.sampled_ids = layout_.log_normalizers + requests.size();
  layout_.sampled_values = layout_.sampled_ids + samples_.size();
  layout_.num_words = layout_.sampled_values + samples_.size();
  renormalizes_ = std::ranges::find(renormalize_, 1) != renormalize_.end();
  if (!renormalizes_) return;
  layout_.renormalizers = layout_.num_words + 2 * requests.size();
  layout_.num_words = layout_.renormalizers + requests.size();
}

void Selector::CollectSearches(std::span<const BeamSearch> searches) {
  first_beams_.clear();
  int32_t num_beams = 0;
  for (const BeamSearch& search : searches) {
    first_beams_.push_back(num_beams);
    num_beams += search.width;
  }
  layout_.parents = layout_.num_words;
  layout_.tokens = layout_.parents + num_beams;
  layout_.scores = layout_.tokens + num_beams;
  layout_.num_words = layout_.scores + num_beams;
}

absl::Status Selector::Choose(const Tensor& logits, size_t first) {
  BEAMLINE_RETURN_IF_ERROR(FindCandidates(logits, first));
  if (renormalizes_) BEAMLINE_RETURN_IF_ERROR(FindRenormalizers(logits, first));
  return samples_.empty() ? absl::OkStatus() : Draw(logits, first);
}

absl::Status Selector::FindCandidates(const Tensor& logits, size_t first) {
  const auto num_rows = static_cast<size_t>(logits.num_rows());
  const size_t first_entry = first * max_count_;
  TopCandidatesParams params;
  params.logits = logits;
  params.edits = std::span(edits_).subspan(first, num_rows);
  params.normalize_first = std::span(normalize_first_).subspan(first, num_rows);
  params.counts = std::span(counts_).subspan(first, num_rows);
  params.max_count = max_count_;
  params.values = DeviceWords<float>(layout_.values + first_entry);
  params.raw_values = DeviceWords<float>(layout_.raw_values + first_entry);
  params.ids = DeviceWords<int32_t>(layout_.ids + first_entry);
  params.log_normalizers = DeviceWords<float>(layout_.log_normalizers + first);
  return TopCandidates(params);
}

absl::Status Selector::FindRenormalizers(const Tensor& logits, size_t first) {
  ones_.assign(static_cast<size_t>(logits.num_rows()), 1);
  TopCandidatesParams params;
  params.logits = logits;
  params.counts = ones_;
  params.max_count = 1;
  params.values = DeviceWords<float>(layout_.renormalizers - 2 * counts_.size() + first);
  params.ids = DeviceWords<int32_t>(layout_.renormalizers - counts_.size() + first);
  params.log_normalizers = DeviceWords<float>(layout_.renormalizers + first);
  return TopCandidates(params);
}

absl::Status Selector::TopCandidates(const TopCandidatesParams& params) {
  if (split_ != nullptr) return split_->TopCandidates(params);
  backend_.TopCandidates(params);
  return absl::OkStatus();
}

absl::Status Selector::Draw(const Tensor& logits, size_t first) {
  const auto draws_before = [&](size_t request) {
    return request < first_draws_.size() ? static_cast<size_t>(first_draws_[request])
                                         : samples_.size();
  };
  const size_t begin = draws_before(first);
  const size_t end = draws_before(first + static_cast<size_t>(logits.num_rows()));
  if (begin == end) return absl::OkStatus();
  piece_samples_.assign(samples_.begin() + static_cast<std::ptrdiff_t>(begin),
                        samples_.begin() + static_cast<std::ptrdiff_t>(end));
  for (SampleRow& sample : piece_samples_) sample.row -= static_cast<int32_t>(first);
  SampleParams params;
  params.logits = logits;
  params.rows = piece_samples_;
  params.ids = DeviceWords<int32_t>(layout_.sampled_ids + begin);
  params.values = DeviceWords<float>(layout_.sampled_values + begin);
  if (split_ != nullptr) return split_->Sample(params);
  backend_.Sample(params);
  return absl::OkStatus();
}

void Selector::AdvanceBeams(std::span<const BeamSearch> searches, const int32_t* words) {
  AdvanceBeamsParams params;
  params.values = DeviceWords<float>(layout_.values);
  params.ids = DeviceWords<int32_t>(layout_.ids);
  params.counts = counts_;
  params.max_count = max_count_;
  if (renormalizes_) params.normalizers = DeviceWords<float>(layout_.renormalizers);
  params.searches = searches;
  params.words = reinterpret_cast<const float*>(words);  // scores lie among the ids
  params.parents = DeviceWords<int32_t>(layout_.parents);
  params.tokens = DeviceWords<int32_t>(layout_.tokens);
  params.scores = DeviceWords<float>(layout_.scores);
  backend_.AdvanceBeams(params);
}

std::span<const RowResult> Selector::Results(size_t first, size_t count) {
  for (size_t row = first; row < first + count; ++row) ReadResult(row);
  return std::span(results_).subspan(first, count);
}

void Selector::ReadResult(size_t row) {
  RowResult& result = results_[row];
  const size_t first = row * max_count_;
  const auto count = static_cast<size_t>(counts_[row]);
  result.values = HostWords<float>(layout_.values + first, count);
  if (renormalize_[row] != 0) {
    const float normalizer = HostWords<float>(layout_.renormalizers + row, 1)[0];
    const auto renormalized = std::span(renormalized_).subspan(first, count);
    std::ranges::transform(result.values, renormalized.begin(),
                           [&](float value) { return value - normalizer; });
    result.values = renormalized;
  }
  result.raw_values = HostWords<float>(layout_.raw_values + first, count);
  result.ids = HostWords<int32_t>(layout_.ids + first, count);
  result.log_normalizer = HostWords<float>(layout_.log_normalizers + row, 1)[0];
  const auto draw = static_cast<size_t>(first_draws_[row]);
  const size_t end =
      row + 1 < counts_.size() ? static_cast<size_t>(first_draws_[row + 1]) : samples_.size();
  result.sampled_ids = HostWords<int32_t>(layout_.sampled_ids + draw, end - draw);
  result.sampled_values = HostWords<float>(layout_.sampled_values + draw, end - draw);
}

}  // namespace beamline
