#include "engine/decoding/token_logprobs.h"

#include <algorithm>
#include <limits>

#include "engine/decoding/logits_shaper.h"

namespace beamline {

bool TokenChoice::allowed() const {
  // Also false for NaN: a broken model's result ends a sequence and does not spread.
  return score > -std::numeric_limits<float>::infinity();
}

TokenChoice CandidateChoice(const RowResult& row, size_t index) {
  return {.token = row.ids[index],
          .score = row.values[index],
          .logprob = row.raw_values[index] - row.log_normalizer};
}

TokenChoice SampledChoice(const RowResult& row, size_t index, const LogitsEdits* edits) {
  const int32_t token = row.sampled_ids[index];
  if (const auto found = std::ranges::find(row.ids, token); found != row.ids.end()) {
    return CandidateChoice(row, found - row.ids.begin());
  }
  const float score = row.sampled_values[index];
  return {.token = token,
          .score = score,
          .logprob = UneditedLogit(edits, token, score) - row.log_normalizer};
}

std::vector<TokenLogprob> TopLogprobs(const RowResult& row, int32_t count) {
  std::vector<TokenLogprob> top;
  top.reserve(count);
  for (size_t i = 0; i < row.ids.size() && top.size() < static_cast<size_t>(count); ++i) {
    const TokenChoice choice = CandidateChoice(row, i);
    if (!choice.allowed()) break;
    top.push_back({choice.token, choice.logprob});
  }
  std::ranges::stable_sort(top, std::ranges::greater{}, &TokenLogprob::logprob);
  return top;
}

}  // namespace beamline
