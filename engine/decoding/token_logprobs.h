// The model's own log-probabilities at a position, from the backend's results for its row.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/api/request.h"
#include "engine/decoding/group_decoder.h"
#include "kernels/backend.h"

namespace beamline {

// A token chosen for a row, its edited score, and its log-probability in the model's own
// distribution. If all tokens of the row are banned, `score` is -infinity (or NaN).
struct TokenChoice {
  int32_t token = 0;
  float score = 0.0f;
  float logprob = 0.0f;

  bool allowed() const;
};

// Candidate `index` of the row.
TokenChoice CandidateChoice(const RowResult& row, size_t index);
// Sample `index` of the row. `edits` are those that the row was requested with.
TokenChoice SampledChoice(const RowResult& row, size_t index, const LogitsEdits* edits);

// The row's best `count` candidates, ordered by the model's own log-probability. With edits, only
// candidates that the edits allow: no banned tokens, and only the forced token if there is one.
std::vector<TokenLogprob> TopLogprobs(const RowResult& row, int32_t count);

}  // namespace beamline
