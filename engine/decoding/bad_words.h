// The token sequences of words that must not appear.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/text/tokenizer.h"

namespace beamline {

// Ids as they are, each 0 .. vocab_size - 1; texts as tokens in the middle of a text and at its
// beginning: byte-level vocabularies spell a word that follows a space differently. A word that
// brings its own space is taken as it is. INVALID_ARGUMENT names the entry of shaping.bad_words.
absl::StatusOr<std::vector<TokenIds>> ResolveBadWords(const std::vector<Prompt>& words,
                                                      const Tokenizer& tokenizer,
                                                      int32_t vocab_size);

}  // namespace beamline
