#include "kernels/cpu/logits_edits.h"

#include <algorithm>
#include <limits>

namespace beamline::cpu {
namespace {

bool InRange(int32_t id, size_t vocab_size) {
  return id >= 0 && static_cast<size_t>(id) < vocab_size;
}

void ApplyPenalties(const LogitsEdits& edits, size_t vocab_size, float* scores) {
  for (const LogitsEdits::Penalty& penalty : edits.penalties) {
    if (!InRange(penalty.id, vocab_size)) continue;
    float& score = scores[penalty.id];
    if (edits.repetition_penalty != 1.0f) {
      score = score < 0 ? score * edits.repetition_penalty : score / edits.repetition_penalty;
    }
    if (penalty.output_count > 0) {
      score -= edits.presence_penalty;
      score -= edits.frequency_penalty * static_cast<float>(penalty.output_count);
    }
  }
}

}  // namespace

void ApplyLogitsEdits(const LogitsEdits& edits, size_t vocab_size, float* scores) {
  if (InRange(edits.forced_id, vocab_size)) {
    std::fill_n(scores, vocab_size, -std::numeric_limits<float>::infinity());
    scores[edits.forced_id] = 0.0f;
    return;
  }
  ApplyPenalties(edits, vocab_size, scores);
  for (const LogitsEdits::Bias& bias : edits.biases) {
    if (InRange(bias.id, vocab_size)) scores[bias.id] += bias.value;
  }
}

void SaveEditedLogits(const LogitsEdits& edits, const float* logits, size_t vocab_size,
                      std::vector<SavedLogit>& saved) {
  saved.clear();
  const auto save = [&](int32_t id) {
    if (InRange(id, vocab_size)) saved.push_back({id, logits[id]});
  };
  for (const LogitsEdits::Penalty& penalty : edits.penalties) save(penalty.id);
  for (const LogitsEdits::Bias& bias : edits.biases) save(bias.id);
  std::sort(saved.begin(), saved.end(),
            [](const SavedLogit& a, const SavedLogit& b) { return a.id < b.id; });
}

const SavedLogit* FindSaved(const std::vector<SavedLogit>& saved, int32_t id) {
  const auto found =
      std::lower_bound(saved.begin(), saved.end(), id,
                       [](const SavedLogit& entry, int32_t key) { return entry.id < key; });
  return found != saved.end() && found->id == id ? &*found : nullptr;
}

}  // namespace beamline::cpu
