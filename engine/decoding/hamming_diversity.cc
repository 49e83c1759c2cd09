#include "engine/decoding/hamming_diversity.h"

#include <algorithm>
#include <numeric>

namespace beamline {

void HammingDiversity::StartStep() {
  chosen_.clear();
  num_rankings_ = 0;
}

RowResult HammingDiversity::Rank(const RowResult& row, const LogitsShaper& shaper) {
  const bool forced = shaper.edits() != nullptr && shaper.edits()->forced_id >= 0;
  if (chosen_.empty() || forced) return row;  // a forced token overrides every other edit

  const size_t count = row.ids.size();
  scores_.assign(row.values.begin(), row.values.end());
  for (size_t i = 0; i < count; ++i) {
    const auto found = chosen_.find(row.ids[i]);
    if (found == chosen_.end()) continue;
    // The repetition penalty also scales the diversity penalty, which is applied before it.
    scores_[i] -=
        penalty_ * static_cast<float>(found->second) * shaper.RepetitionFactor(row.ids[i]);
  }
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::sort(order_, [&](int32_t a, int32_t b) {
    return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : row.ids[a] < row.ids[b];
  });

  if (num_rankings_ == rankings_.size()) rankings_.emplace_back();
  Ranking& ranking = rankings_[num_rankings_++];
  ranking.ids.resize(count);
  ranking.values.resize(count);
  ranking.raw_values.resize(count);
  for (size_t i = 0; i < count; ++i) {
    ranking.ids[i] = row.ids[order_[i]];
    ranking.values[i] = scores_[order_[i]];
    ranking.raw_values[i] = row.raw_values[order_[i]];
  }
  RowResult ranked = row;
  ranked.ids = ranking.ids;
  ranked.values = ranking.values;
  ranked.raw_values = ranking.raw_values;
  return ranked;
}

}  // namespace beamline
