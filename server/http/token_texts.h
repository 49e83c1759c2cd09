// What single tokens stand for, whatever comes before them: log-probabilities name candidates that
// no text has.
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

  // What the token adds to a text that has begun: with the space in front of it, where it has one,
  // and of a part of a character that part. Nothing of special tokens.
  std::optional<std::string> BytesOf(int32_t id) const;

  // As OpenAI's completions write a token: its text, or "bytes:\xe2\x82" of a part of a character.
  std::string NameOf(int32_t id) const;
  // As OpenAI's chat completions do: its text, or "\xe2\x82". `bytes`: BytesOf(id).
  std::string ChatNameOf(int32_t id, const std::optional<std::string>& bytes) const;

  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  // Its text after another token, which keeps the space in front.
  std::string TextOf(int32_t id) const;
  // A name, with `mark` before bytes that are no text.
  std::string Name(int32_t id, const std::optional<std::string>& bytes,
                   std::string_view mark) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<int32_t> letter_;  // a token that is a plain text
  std::string one_, two_;          // the texts of one and two of it
};

// "\xe2\x82".
std::string EscapedBytes(std::string_view bytes);

}  // namespace beamline
