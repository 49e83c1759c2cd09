#include "engine/encoding/encoding.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/status.h"
#include "engine/encoding/finite.h"

namespace beamline {

absl::StatusOr<bool> VectorAnswers::Make(const FinishedRows& rows, const ModelHeads&,
                                         std::span<Embedding> inputs) {
  const float* values = rows.values.data();
  for (size_t i = 0; i < rows.num_rows.size(); ++i) {
    HostRows own;
    own.width = rows.width;
    const float* const end = values + int64_t{rows.num_rows[i]} * rows.width;
    own.values.assign(values, end);
    values = end;
    for (const auto& finisher : finishers_) finisher->Apply(own);
    Embedding& embedding = inputs[rows.first_input + i];
    embedding.num_vectors = rows.num_rows[i];
    embedding.dimensions = own.width;
    embedding.values = std::move(own.values);
  }
  return true;
}

MaskAnswers::MaskAnswers(std::vector<std::vector<int32_t>> positions, int32_t count,
                         TokenIds targets)
    : count_(count), targets_(std::move(targets)) {
  for (const std::vector<int32_t>& of_input : positions) {
    std::vector<FilledMask>& filled = filled_.emplace_back();
    for (const int32_t position : of_input) filled.push_back({.position = position});
  }
}

absl::StatusOr<bool> MaskAnswers::Make(const FinishedRows& rows, const ModelHeads& heads,
                                       std::span<Embedding>) {
  std::vector<FilledMask*> masks;  // one for each row
  for (size_t i = 0; i < rows.num_rows.size(); ++i) {
    for (FilledMask& mask : filled_[rows.first_input + i]) masks.push_back(&mask);
  }
  bool is_finite = true;
  BEAMLINE_RETURN_IF_ERROR(
      heads.mask->Compute(rows.values, [&](size_t row, std::span<const float> logits) {
        is_finite = is_finite && AreFinite(logits);
        if (is_finite) masks[row]->tokens = Likeliest(logits, count_, targets_);
      }));
  return is_finite;
}

Encoding ClassEncoding(std::unique_ptr<const RowReader> reader, ScoreFunction function) {
  VectorAnswers::Finishers finishers;
  finishers.push_back(std::make_unique<ClassScores>(function));
  Encoding encoding;
  encoding.reader = std::move(reader);
  encoding.head = HeadKind::kClassifier;
  encoding.answers = std::make_unique<VectorAnswers>(std::move(finishers));
  return encoding;
}

std::vector<std::pair<int32_t, float>> Likeliest(std::span<const float> logits, int32_t count,
                                                 const TokenIds& targets) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  TokenIds ids = targets;
  if (ids.empty()) {
    ids.resize(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
  }
  const auto logit_of = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  const auto best = ids.begin() + std::min<std::ptrdiff_t>(count, std::ssize(ids));
  std::partial_sort(ids.begin(), best, ids.end(), [&](int32_t a, int32_t b) {
    return logit_of(a) != logit_of(b) ? logit_of(a) > logit_of(b) : a < b;
  });
  std::vector<std::pair<int32_t, float>> likeliest;
  for (auto id = ids.begin(); id != best; ++id) {
    likeliest.emplace_back(*id, static_cast<float>(std::exp(logit_of(*id) - largest) / sum));
  }
  return likeliest;
}

}  // namespace beamline
