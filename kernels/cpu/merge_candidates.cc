#include "kernels/cpu/merge_candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace beamline::cpu {
namespace {

// Treats NaN as -infinity, as the operators do.
float Comparable(float value) {
  return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
}

// log(sum(exp(normalizers))). An infinite maximum is returned itself.
float MergeNormalizers(std::span<const float> normalizers) {
  float maximum = -std::numeric_limits<float>::infinity();
  for (const float normalizer : normalizers) {
    if (std::isnan(normalizer)) return normalizer;
    maximum = std::max(maximum, normalizer);
  }
  if (std::isinf(maximum)) return maximum;
  double sum = 0.0;
  for (const float normalizer : normalizers)
    sum += std::exp(static_cast<double>(normalizer) - maximum);
  return static_cast<float>(maximum + std::log(sum));
}

// The rank with the best next candidate, or -1 if none has one. Ranks have ascending columns, so
// the lower rank wins ties.
int BestRank(std::span<const MergeCandidatesParams* const> ranks, int64_t first, int32_t count,
             std::span<const int32_t> next) {
  int best = -1;
  float best_value = 0.0f;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (next[r] >= std::min(count, ranks[r]->num_columns)) continue;
    const float value = Comparable(ranks[r]->values[first + next[r]]);
    if (best >= 0 && value <= best_value) continue;
    best = static_cast<int>(r);
    best_value = value;
  }
  return best;
}

}  // namespace

void MergeCandidatesOfRow(std::span<const MergeCandidatesParams* const> ranks, int64_t row,
                          std::span<const MergeCandidatesParams* const> targets) {
  const MergeCandidatesParams& asked = *targets.front();
  const int64_t first = row * asked.max_count;
  const int32_t count = asked.counts[row];
  std::vector<int32_t> next(ranks.size(), 0);  // next candidate of each rank
  for (int32_t i = 0; i < count; ++i) {
    const int best = BestRank(ranks, first, count, next);
    if (best < 0) break;  // fewer columns than requested candidates
    const MergeCandidatesParams& from = *ranks[best];
    const int64_t source = first + next[best]++;
    for (const MergeCandidatesParams* const to : targets) {
      to->merged_values[first + i] = from.values[source];
      to->merged_ids[first + i] = from.first_column + from.ids[source];
      if (to->raw_values != nullptr) to->merged_raw_values[first + i] = from.raw_values[source];
    }
  }
  if (asked.log_normalizers == nullptr) return;
  std::vector<float> normalizers;
  for (const MergeCandidatesParams* const from : ranks) {
    normalizers.push_back(from->log_normalizers[row]);
  }
  const float merged = MergeNormalizers(normalizers);
  for (const MergeCandidatesParams* const to : targets) to->merged_log_normalizers[row] = merged;
}

}  // namespace beamline::cpu
