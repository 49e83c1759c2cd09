#include "engine/decoding/bad_words.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "engine/api/request_limits.h"
#include "engine/decoding/option_checks.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr RequestLimit kLimit = LimitOf("shaping.bad_words");
constexpr SizeRange kTokens = *kLimit.entry_size;

absl::StatusOr<TokenIds> TokenizeWord(const std::string& field, const std::string& text,
                                      const Tokenizer& tokenizer) {
  const auto tokens = tokenizer.Encode(text, {.add_special_tokens = false, .as_target = true});
  if (!tokens.ok()) return InField(field, field + ": ", tokens.status());
  if (tokens->size() < kTokens.min || tokens->size() > kTokens.max) {
    return FieldError({.field = field,
                       .value = fmt::to_string(tokens->size()),
                       .accepted = fmt::format("{} to {}", kTokens.min, kTokens.max),
                       .text = fmt::format("{} is {} tokens long", field, tokens->size())});
  }
  TokenIds ids;
  for (const Token& token : *tokens) ids.push_back(token.id);
  return ids;
}

absl::Status CheckIds(const std::string& field, const TokenIds& ids, int32_t vocab_size) {
  if (ids.empty()) {
    return FieldError(field, "empty", fmt::format("{} to {} tokens", kTokens.min, kTokens.max));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckCount(field, ids.size(), kTokens.max));
  return CheckTokenIds(field, ids, vocab_size);
}

}  // namespace

absl::StatusOr<std::vector<TokenIds>> ResolveBadWords(const std::vector<Prompt>& words,
                                                      const Tokenizer& tokenizer,
                                                      int32_t vocab_size) {
  BEAMLINE_RETURN_IF_ERROR(CheckEntries(kLimit, words.size()));
  std::vector<TokenIds> resolved;
  const auto add = [&](TokenIds word) {
    if (std::ranges::find(resolved, word) == resolved.end()) resolved.push_back(std::move(word));
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string field = fmt::format("shaping.bad_words[{}]", i);
    if (const auto* ids = std::get_if<TokenIds>(&words[i])) {
      BEAMLINE_RETURN_IF_ERROR(CheckIds(field, *ids, vocab_size));
      add(*ids);
      continue;
    }
    if (std::holds_alternative<Chat>(words[i])) {
      return FieldError(fmt::format("shaping.bad_words[{}].chat", i), "set", "text or ids here");
    }
    const std::string& text = std::get<std::string>(words[i]);
    BEAMLINE_ASSIGN_OR_RETURN(TokenIds word, TokenizeWord(field + ".text", text, tokenizer));
    add(std::move(word));
    if (text.starts_with(' ')) continue;
    BEAMLINE_ASSIGN_OR_RETURN(TokenIds spaced,
                              TokenizeWord(field + ".text", " " + text, tokenizer));
    add(std::move(spaced));
  }
  return resolved;
}

}  // namespace beamline
