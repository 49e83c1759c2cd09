// Resolves bad words (words that must not be generated) to token sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/request.h"
#include "engine/text/tokenizer.h"

namespace beamline {

// Ids are taken as they are and must be 0 .. vocab_size - 1. A text is tokenized twice, as if in
// the middle of a text and at its start, because byte-level vocabularies spell a word after a space
// differently. A word with its own leading space is tokenized as it is. INVALID_ARGUMENT names the
// entry of shaping.bad_words.
absl::StatusOr<std::vector<TokenIds>> ResolveBadWords(const std::vector<Prompt>& words,
                                                      const Tokenizer& tokenizer,
                                                      int32_t vocab_size);

}  // namespace beamline
