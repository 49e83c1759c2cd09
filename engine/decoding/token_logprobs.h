// The model's own log-probabilities of a position, from what the backend found for its row.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/api/request.h"
#include "engine/decoding/group_decoder.h"
#include "kernels/backend.h"

namespace beamline {

// A choice of one row: which token, what the edits made of its score, how likely the model itself
// finds it. A row whose every token is banned has no choice: `score` is -infinity (or NaN).
struct TokenChoice {
  int32_t token = 0;
  float score = 0.0f;
  float logprob = 0.0f;

  bool allowed() const;
};

// Candidate `index` of the row.
TokenChoice CandidateChoice(const RowResult& row, size_t index);
// Draw `index` of the row. `edits` are those that the row was asked with.
TokenChoice SampledChoice(const RowResult& row, size_t index, const LogitsEdits* edits);

// The row's best `count` candidates, ordered by the model's own log-probability. With edits these
// are the best that the edits leave: a banned token is not among them, and under a forced token
// there is no other.
std::vector<TokenLogprob> TopLogprobs(const RowResult& row, int32_t count);

}  // namespace beamline
