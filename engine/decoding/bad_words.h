// The token sequences of words that must not appear.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/text/tokenizer.h"

namespace beamline {

inline constexpr size_t kMaxBadWordTokens = 32;

// As tokens in the middle of a text and at its beginning: byte-level vocabularies spell a word that
// follows a space differently. A word that brings its own space is taken as it is.
// INVALID_ARGUMENT names shaping.bad_words, as the contract has it, and the place among the texts.
absl::StatusOr<std::vector<TokenIds>> TokenizeBadWords(const std::vector<std::string>& texts,
                                                       const Tokenizer& tokenizer);

}  // namespace beamline
