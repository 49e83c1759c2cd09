#include "engine/loading/rerank_prompt.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr char kTemplate[] = "rerank_template";
constexpr char kTokens[] = "rerank_tokens";
constexpr std::string_view kQuery = "{query}";
constexpr std::string_view kDocument = "{document}";

absl::StatusOr<size_t> FindOnce(const std::string& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at != std::string::npos && text.find(mark, at + 1) == std::string::npos) return at;
  return FieldError(kTemplate, fmt::format("'{}'", Shorten(text)),
                    "a text with {query} and {document}, each once");
}

// The id of a token by its spelling in the vocabulary, or of a text that is one token.
absl::StatusOr<int32_t> TokenOf(const std::string& name, const Tokenizer& tokenizer,
                                int32_t vocab_size) {
  std::optional<int32_t> id = tokenizer.TokenId(name);
  size_t count = 1;
  if (!id.has_value()) {
    const auto tokens = tokenizer.Encode(name, {.add_special_tokens = false});
    if (!tokens.ok()) return InField(kTokens, fmt::format("{}: ", kTokens), tokens.status());
    count = tokens->size();
    if (count == 1 && tokens->front().id != tokenizer.unknown_id()) id = tokens->front().id;
  }
  if (id.has_value() && *id >= 0 && *id < vocab_size) return *id;
  return FieldError({.field = kTokens,
                     .value = fmt::format("'{}'", Shorten(name)),
                     .text = fmt::format("{}: '{}' is {}; accepted: a token's spelling in the "
                                         "vocabulary, or a text that is one token",
                                         kTokens, Shorten(name),
                                         count > 1 ? fmt::format("{} tokens", count)
                                                   : "none of the tokens that the model writes")});
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RerankPrompt>> RerankPrompt::Make(
    const ModelOptions& options, const Tokenizer& tokenizer, const TransformerSpec& spec) {
  const std::string& text = options.rerank_template;
  if (text.empty() && options.rerank_tokens.empty()) return nullptr;
  if (!spec.decoder.has_value() || spec.classifier.has_value()) {
    return FieldError(text.empty() ? kTokens : kTemplate, "given",
                      fmt::format("models that write, which {} is not", spec.architecture));
  }
  if (text.empty() || options.rerank_tokens.empty()) {
    return FieldError(text.empty() ? kTemplate : kTokens, "not given",
                      fmt::format("both {} and {}, or neither", kTemplate, kTokens));
  }
  BEAMLINE_ASSIGN_OR_RETURN(const size_t query, FindOnce(text, kQuery));
  BEAMLINE_ASSIGN_OR_RETURN(const size_t document, FindOnce(text, kDocument));
  std::shared_ptr<RerankPrompt> prompt(new RerankPrompt);
  prompt->document_first_ = document < query;
  const size_t first = std::min(query, document);
  const size_t second = std::max(query, document);
  const size_t first_size = prompt->document_first_ ? kDocument.size() : kQuery.size();
  const size_t second_size = prompt->document_first_ ? kQuery.size() : kDocument.size();
  prompt->parts_ = {text.substr(0, first),
                    text.substr(first + first_size, second - first - first_size),
                    text.substr(second + second_size)};
  const std::vector<std::string> names = absl::StrSplit(options.rerank_tokens, ',');
  const auto wrong = [&] {
    return FieldError(kTokens, fmt::format("'{}'", Shorten(options.rerank_tokens)),
                      "two different tokens with a comma between them, that of a document which "
                      "answers the query first");
  };
  if (names.size() != 2) return wrong();
  const auto token = [&](const std::string& name) {
    return TokenOf(std::string(absl::StripAsciiWhitespace(name)), tokenizer, spec.vocab_size);
  };
  BEAMLINE_ASSIGN_OR_RETURN(prompt->positive_id_, token(names[0]));
  BEAMLINE_ASSIGN_OR_RETURN(prompt->negative_id_, token(names[1]));
  if (prompt->positive_id_ == prompt->negative_id_) return wrong();
  return prompt;
}

RerankPrompt::Filled RerankPrompt::Fill(std::string_view query, std::string_view document) const {
  Filled filled;
  filled.text.reserve(size() + query.size() + document.size());
  filled.text = parts_[0];
  const auto add_document = [&] {
    filled.document_begin = filled.text.size();
    filled.text += document;
    filled.document_end = filled.text.size();
  };
  if (document_first_) add_document();
  if (!document_first_) filled.text += query;
  filled.text += parts_[1];
  if (document_first_) filled.text += query;
  if (!document_first_) add_document();
  filled.text += parts_[2];
  return filled;
}

}  // namespace beamline
