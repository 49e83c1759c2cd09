// Applies LogitsEdits to one row of scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"

namespace beamline::cpu {

// An element's value before its row was edited.
struct SavedLogit {
  int32_t id = 0;
  float value = 0;
};

// Edits scores [vocab_size] in place, with the arithmetic of Hugging Face's logits processors:
// penalties, then biases. A forced token replaces all of that. Ids out of range are ignored.
void ApplyLogitsEdits(const LogitsEdits& edits, size_t vocab_size, float* scores);

// The logits that penalties and biases will change, sorted by id.
void SaveEditedLogits(const LogitsEdits& edits, const float* logits, size_t vocab_size,
                      std::vector<SavedLogit>& saved);

// The saved logit of `id`, or null.
const SavedLogit* FindSaved(const std::vector<SavedLogit>& saved, int32_t id);

}  // namespace beamline::cpu
