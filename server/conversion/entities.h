// Classes of tokens to entities, as transformers' pipeline of token classification makes them
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

// One input's answer.
struct TokenScores {
  std::string_view text;
  std::span<const InputToken> tokens;
  std::span<const float> scores;  // [tokens, labels]
  const std::vector<std::string>& labels;
};

// A token as the pipeline has it.
std::string PieceOf(const InputToken& token, std::string_view text, const Tokenizer& tokenizer);

// In the order of the text, of every label. REQUIRES: aggregation is not AGGREGATION_NONE.
std::vector<v1::Entity> FindEntities(const TokenScores& input, v1::Aggregation aggregation,
                                     const Tokenizer& tokenizer);

}  // namespace beamline
