#include "engine/decoding/bad_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/status.h"

namespace beamline {
namespace {

absl::StatusOr<TokenIds> TokenizeWord(std::string_view field, const std::string& text,
                                      const Tokenizer& tokenizer) {
  const auto tokens = tokenizer.Encode(text, {.add_special_tokens = false, .as_target = true});
  if (!tokens.ok()) {
    return absl::Status(tokens.status().code(),
                        fmt::format("{}: {}", field, std::string(tokens.status().message())));
  }
  if (tokens->empty() || tokens->size() > kMaxBadWordTokens) {
    return absl::InvalidArgumentError(fmt::format("{} is {} tokens long; accepted: 1 to {}", field,
                                                  tokens->size(), kMaxBadWordTokens));
  }
  TokenIds ids;
  for (const Token& token : *tokens) ids.push_back(token.id);
  return ids;
}

}  // namespace

absl::StatusOr<std::vector<TokenIds>> TokenizeBadWords(const std::vector<std::string>& texts,
                                                       const Tokenizer& tokenizer) {
  std::vector<TokenIds> words;
  const auto add = [&](TokenIds word) {
    if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
  };
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string field = fmt::format("shaping.bad_words: text {}", i);
    BEAMLINE_ASSIGN_OR_RETURN(TokenIds word, TokenizeWord(field, texts[i], tokenizer));
    add(std::move(word));
    if (texts[i].starts_with(' ')) continue;
    BEAMLINE_ASSIGN_OR_RETURN(TokenIds spaced, TokenizeWord(field, " " + texts[i], tokenizer));
    add(std::move(spaced));
  }
  return words;
}

}  // namespace beamline
