// Joins classified tokens to entities, like transformers' token classification pipeline
// (transformers/pipelines/token_classification.py).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "beamline/v1/inference.pb.h"
#include "engine/api/request.h"
#include "engine/text/tokenizer.h"

namespace beamline {

// The result for one input.
struct TokenScores {
  std::string_view text;
  std::span<const InputToken> tokens;
  std::span<const float> scores;  // row-major [num_tokens, num_labels]
  const std::vector<std::string>& labels;
};

// The token's text as the pipeline returns it.
std::string PieceOf(const InputToken& token, std::string_view text, const Tokenizer& tokenizer);

// Entities of all labels, in the order of the text. REQUIRES: aggregation is not AGGREGATION_NONE.
std::vector<v1::Entity> FindEntities(const TokenScores& input, v1::Aggregation aggregation,
                                     const Tokenizer& tokenizer);

}  // namespace beamline
