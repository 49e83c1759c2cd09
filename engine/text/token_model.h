// The "model" of a tokenizer.json: turns one word into tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/component_json.h"
#include "engine/text/text_work.h"
#include "engine/text/vocabulary.h"

namespace beamline::text {

// A token and its bytes in the word.
struct WordToken {
  int32_t id = 0;
  int32_t begin = 0;
  int32_t end = 0;
};

// Immutable, thread safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a word. Work beyond reading its bytes is spent from `work`, the budget of
  // the whole text. REQUIRES: word is not empty.
  virtual absl::Status Tokenize(std::string_view word, TextWork& work,
                                std::vector<WordToken>* tokens) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // Whether a token with this id is spelled as the text it matched, not as in the vocabulary.
  virtual bool SpelledAsText(int32_t id) const {
    static_cast<void>(id);
    return false;
  }
  // "BPE", "WordPiece", "Unigram", "WordLevel".
  virtual std::string_view Name() const = 0;
};

// With `raw_bytes`, words are plain bytes although the vocabulary uses the byte alphabet; see
// CanTakeRawBytes.
absl::StatusOr<std::unique_ptr<TokenModel>> MakeTokenModel(const JsonNode& node, bool raw_bytes);

// Whether the model accepts raw bytes: BPE without affixes and without byte fallback.
bool CanTakeRawBytes(const JsonNode& node);

}  // namespace beamline::text
