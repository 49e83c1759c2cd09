// The text of single tokens, independent of their context: log-probabilities name candidates that
// are in no text.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "engine/text/tokenizer.h"

namespace beamline {

class TokenTexts {
 public:
  explicit TokenTexts(std::shared_ptr<const Tokenizer> tokenizer);

  // The bytes that the token adds within a text: with its leading space, if it has one. For a part
  // of a character, that part. nullopt for special tokens.
  std::optional<std::string> BytesOf(int32_t id) const;

  // The name of a token in OpenAI's completions: its text, or "bytes:\xe2\x82" for a part of a
  // character.
  std::string NameOf(int32_t id) const;
  // The name in OpenAI's chat completions: its text, or "\xe2\x82". `bytes`: BytesOf(id).
  std::string ChatNameOf(int32_t id, const std::optional<std::string>& bytes) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  // Its text after another token, which keeps the leading space.
  std::string TextOf(int32_t id) const;
  // A name, with `mark` before bytes that are not valid UTF-8.
  std::string Name(int32_t id, const std::optional<std::string>& bytes,
                   std::string_view mark) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<int32_t> letter_;  // a token of letters only
  std::string one_, two_;          // the texts of the first and the second of two such tokens
};

// "\xe2\x82".
std::string EscapedBytes(std::string_view bytes);

}  // namespace beamline
