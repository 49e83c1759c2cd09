// WordPiece and whole-word models.
#pragma once

#include <memory>
#include <string>

#include "engine/text/token_model.h"

namespace beamline::text {

struct WordPieceConfig {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  int64_t max_input_chars_per_word = 100;  // longer words are unknown
};

// INVALID_ARGUMENT if the unknown token is not in the vocabulary.
absl::StatusOr<std::unique_ptr<TokenModel>> MakeWordPiece(Vocabulary vocabulary,
                                                          WordPieceConfig config);
absl::StatusOr<std::unique_ptr<TokenModel>> WordPieceFromJson(const JsonNode& node);
// "WordLevel": a word is a token or unknown.
absl::StatusOr<std::unique_ptr<TokenModel>> WordLevelFromJson(const JsonNode& node);

}  // namespace beamline::text
