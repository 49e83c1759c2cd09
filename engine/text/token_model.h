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

// A token and the bytes of the word that it stands for.
struct WordToken {
  int32_t id = 0;
  int32_t begin = 0;
  int32_t end = 0;
};

// Immutable, thread safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a word. What that costs beyond its bytes is spent of `work`, the whole
  // text's. REQUIRES: word is not empty.
  virtual absl::Status Tokenize(std::string_view word, TextWork& work,
                                std::vector<WordToken>* tokens) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // Whether a token of this id is spelled as the text that it stands for, not by the vocabulary.
  virtual bool SpelledAsText(int32_t id) const {
    static_cast<void>(id);
    return false;
  }
  // "BPE", "WordPiece", "Unigram", "WordLevel".
  virtual std::string_view Name() const = 0;
};

// With `raw_bytes` the words come as plain bytes although the vocabulary spells them in the byte
// alphabet; see CanTakeRawBytes.
absl::StatusOr<std::unique_ptr<TokenModel>> MakeTokenModel(const JsonNode& node, bool raw_bytes);

// Whether the model accepts raw bytes: BPE without affixes and without byte fallback.
bool CanTakeRawBytes(const JsonNode& node);

}  // namespace beamline::text
