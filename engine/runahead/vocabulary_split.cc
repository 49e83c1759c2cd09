#include "engine/runahead/vocabulary_split.h"

#include <algorithm>
#include <limits>

#include "base/status.h"

namespace beamline {

VocabularySplit::VocabularySplit(int32_t vocab_size, Backend& backend, Communicator& communicator)
    : vocab_size_(vocab_size),
      first_column_(
          static_cast<int32_t>(Shard{communicator.rank(), communicator.size()}.Begin(vocab_size))),
      num_columns_(
          static_cast<int32_t>(Shard{communicator.rank(), communicator.size()}.Width(vocab_size))),
      backend_(backend),
      communicator_(communicator) {}

absl::Status VocabularySplit::TopCandidates(const TopCandidatesParams& params) {
  const size_t num_rows = params.counts.size();
  const size_t num_entries = num_rows * params.max_count;
  // Values, raw values and ids; plus six words per row for normalizers.
  BEAMLINE_RETURN_IF_ERROR(Reserve(3 * num_entries + 6 * num_rows));
  auto* const values = static_cast<float*>(words_->data());
  float* const normalizers = values + 3 * num_entries;
  KeepOwnEdits(params.edits);
  counts_.clear();
  for (const int32_t count : params.counts) counts_.push_back(std::min(count, num_columns_));

  TopCandidatesParams own = params;
  own.edits = edits_;
  own.counts = counts_;
  own.values = values;
  own.raw_values = params.raw_values == nullptr ? nullptr : values + num_entries;
  own.ids = reinterpret_cast<int32_t*>(values + 2 * num_entries);
  MergeCandidatesParams merge;
  if (std::ranges::any_of(params.normalize_first, [](uint8_t mode) { return mode != 0; })) {
    // A rank cannot normalise its columns before it knows those of the others.
    FindNormalizers(params.logits, normalizers + num_rows, normalizers);
    own.whole_normalizers = normalizers;
  } else if (params.log_normalizers != nullptr) {
    own.log_normalizers = normalizers;
    merge.log_normalizers = normalizers;
    merge.merged_log_normalizers = params.log_normalizers;
  }
  backend_.TopCandidates(own);
  merge.counts = params.counts;
  merge.max_count = params.max_count;
  merge.first_column = first_column_;
  merge.num_columns = num_columns_;
  merge.values = own.values;
  merge.ids = own.ids;
  merge.raw_values = own.raw_values;
  merge.merged_values = params.values;
  merge.merged_ids = params.ids;
  merge.merged_raw_values = params.raw_values;
  communicator_.MergeCandidates(merge);
  return absl::OkStatus();
}

void VocabularySplit::FindNormalizers(const Tensor& logits, float* words, float* normalizers) {
  const auto num_rows = static_cast<size_t>(logits.num_rows());
  ones_.assign(num_rows, 1);
  TopCandidatesParams own;
  own.logits = logits;
  own.counts = ones_;
  own.max_count = 1;
  own.values = words;
  own.ids = reinterpret_cast<int32_t*>(words + num_rows);
  own.log_normalizers = words + 2 * num_rows;
  backend_.TopCandidates(own);
  MergeCandidatesParams merge;
  merge.counts = ones_;
  merge.max_count = 1;
  merge.first_column = first_column_;
  merge.num_columns = num_columns_;
  merge.values = own.values;
  merge.ids = own.ids;
  merge.log_normalizers = own.log_normalizers;
  // The best candidate of each row is not needed.
  merge.merged_values = words + 3 * num_rows;
  merge.merged_ids = reinterpret_cast<int32_t*>(words + 4 * num_rows);
  merge.merged_log_normalizers = normalizers;
  communicator_.MergeCandidates(merge);
}

absl::Status VocabularySplit::Sample(const SampleParams& params) {
  if (gathered_ == nullptr) {
    BEAMLINE_ASSIGN_OR_RETURN(gathered_, backend_.Allocate(GatheredBytes(vocab_size_)));
  }
  const Tensor whole(gathered_->data(), DType::kFloat32, {kGatheredRows, vocab_size_});
  const std::span<const SampleRow> draws = params.rows;
  for (size_t begin = 0; begin < draws.size(); begin += rows_.size()) {
    // Samples of consecutive rows.
    const int32_t first = draws[begin].row;
    int32_t last = first;
    rows_.clear();
    for (const SampleRow& draw : draws.subspan(begin)) {
      if (draw.row < last || draw.row > last + 1 || draw.row - first >= kGatheredRows) break;
      last = draw.row;
      rows_.push_back(draw);
      rows_.back().row -= first;
    }
    Tensor own = params.logits;
    own.data = own.row<float>(first);
    own = own.First(last - first + 1);
    const Tensor rows = whole.First(own.dim(0));
    communicator_.AllGather(own, rows);
    SampleParams sample;
    sample.logits = rows;
    sample.rows = rows_;
    sample.ids = params.ids + begin;
    sample.values = params.values + begin;
    backend_.Sample(sample);
  }
  return absl::OkStatus();
}

void VocabularySplit::KeepOwnEdits(std::span<const LogitsEdits* const> edits) {
  edits_.clear();
  own_edits_.clear();
  own_edits_.reserve(edits.size());  // edits_ points there
  for (const LogitsEdits* const whole : edits) {
    const bool any = whole != nullptr && !whole->empty();
    if (any) own_edits_.push_back(OwnEdits(*whole));
    edits_.push_back(any ? &own_edits_.back() : nullptr);
  }
}

LogitsEdits VocabularySplit::OwnEdits(const LogitsEdits& edits) const {
  const auto is_own = [&](int32_t id) {
    return id >= first_column_ && id < first_column_ + num_columns_;
  };
  LogitsEdits own;
  if (edits.forced_id >= 0 && edits.forced_id < vocab_size_) {
    if (is_own(edits.forced_id)) {
      own.forced_id = edits.forced_id - first_column_;
    } else {
      for (int32_t id = 0; id < num_columns_; ++id) {
        own.biases.push_back({id, -std::numeric_limits<float>::infinity()});
      }
    }
    return own;
  }
  own.repetition_penalty = edits.repetition_penalty;
  own.presence_penalty = edits.presence_penalty;
  own.frequency_penalty = edits.frequency_penalty;
  for (LogitsEdits::Penalty penalty : edits.penalties) {
    if (!is_own(penalty.id)) continue;
    penalty.id -= first_column_;
    own.penalties.push_back(penalty);
  }
  for (LogitsEdits::Bias bias : edits.biases) {
    if (!is_own(bias.id)) continue;
    bias.id -= first_column_;
    own.biases.push_back(bias);
  }
  return own;
}

absl::Status VocabularySplit::Reserve(size_t num_words) {
  const size_t bytes = num_words * sizeof(float);
  if (words_ != nullptr && words_->size() >= bytes) return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(words_, backend_.Allocate(2 * bytes));
  return absl::OkStatus();
}

}  // namespace beamline
