#include "engine/intake/prompts.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/api/request_limits.h"
#include "engine/chat/chat_templates.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

constexpr char kTruncateHint[] = "; set truncate to cut it";

// A token is rarely longer than this. Rejects far too long texts before they are tokenized.
constexpr size_t kMaxBytesPerToken = 256;

// Maximum bytes of an unknown language name that an error repeats.
constexpr size_t kMostLanguageBytes = 64;

// Several requests that want many logits can share a step, together with others.
constexpr int32_t kStepShares = 4;
// Maximum given tokens per step with logits: they are not split, and others wait for them.
constexpr int32_t kMostGivenTokens = 256;

absl::Status CheckIds(std::string_view field, const TokenIds& ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return CheckInt(fmt::format("{}.ids[{}]", field, i), ids[i], 0, vocab_size - 1);
  }
  return absl::OkStatus();
}

int32_t VocabSize(PromptSide side, const ModelFacts& model) {
  return side == PromptSide::kInput ? model.info.input_vocab_size : model.info.vocab_size;
}

// As in transformers: a template adds tokens to an empty text, and generation without a prompt
// starts at the BOS token.
bool EmptyTextHasTokens(PromptSide side, const ModelFacts& model) {
  if (model.info.task == ModelTask::kTranslate || side == PromptSide::kInput) {
    return model.tokenizer->num_template_tokens() > 0 ||
           model.description.generation.bos_token_id >= 0;
  }
  return false;
}

// The tokenizer may have special tokens outside the model's vocabulary.
absl::Status CheckTokens(std::string_view text_field, const std::vector<Token>& tokens,
                         int32_t vocab_size, const Tokenizer& tokenizer) {
  for (const Token& token : tokens) {
    if (token.id >= 0 && token.id < vocab_size) continue;
    return FieldError(
        {.field = std::string(text_field),
         .value = fmt::to_string(token.id),
         .accepted = fmt::format("ids 0 to {}", vocab_size - 1),
         .text = fmt::format("{} has the token \"{}\" of id {} at byte {}", text_field,
                             tokenizer.TokenText(token.id), token.id, token.begin)});
  }
  return absl::OkStatus();
}

// Returns the tokens of a text; errors name the field.
absl::StatusOr<std::vector<Token>> TokensOf(const std::string& text_field, const std::string& text,
                                            const EncodeTextOptions& options,
                                            const ModelFacts& model) {
  auto tokens = model.tokenizer->Encode(text, options);
  if (!tokens.ok()) return InField(text_field, text_field + ": ", tokens.status());
  const PromptSide side = options.as_target ? PromptSide::kTarget : PromptSide::kInput;
  BEAMLINE_RETURN_IF_ERROR(
      CheckTokens(text_field, *tokens, VocabSize(side, model), *model.tokenizer));
  return tokens;
}

// Returns only the ids.
absl::StatusOr<TokenIds> EncodeText(const std::string& text_field, const std::string& text,
                                    const EncodeTextOptions& options, const ModelFacts& model) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<Token> tokens,
                            TokensOf(text_field, text, options, model));
  TokenIds ids;
  ids.reserve(tokens.size());
  for (const Token& token : tokens) ids.push_back(token.id);
  return ids;
}

// Removes a template token that the text itself already has next to it.
void DropDoubled(std::vector<Token>& tokens) {
  const auto is_added = [](const Token& token) {
    return token.special && token.begin == token.end;
  };
  if (tokens.size() < 2) return;
  if (is_added(tokens.front()) && !is_added(tokens[1]) && tokens.front().id == tokens[1].id) {
    tokens.erase(tokens.begin());
  }
  if (tokens.size() < 2) return;
  const Token& before = tokens[tokens.size() - 2];
  if (is_added(tokens.back()) && !is_added(before) && tokens.back().id == before.id) {
    tokens.pop_back();
  }
}

// Whether a text must have more than `limit` tokens, whatever they are.
bool IsFarTooLong(size_t bytes, int32_t limit) {
  return bytes > std::max(limit, 0) * kMaxBytesPerToken;
}
bool IsFarTooLong(const std::string& text, int32_t limit) {
  return IsFarTooLong(text.size(), limit);
}

std::string AtLeastTokens(size_t bytes) {
  return fmt::format("more than {}", bytes / kMaxBytesPerToken);
}
std::string AtLeastTokens(const std::string& text) { return AtLeastTokens(text.size()); }

// Checks a conversation before it is rendered.
absl::Status CheckChat(std::string_view field, const Chat& chat, const ModelFacts& model) {
  const std::string chat_field = fmt::format("{}.chat", field);
  if (field != "prompt") return FieldError(chat_field, "set", "text or ids here");
  if (model.chat->empty()) {
    return FieldError({.field = chat_field,
                       .value = "set",
                       .text = fmt::format("{} is set; accepted for models with a chat template, "
                                           "which '{}' is without",
                                           chat_field, model.options.name)});
  }
  const auto& limit = *LimitOf("prompt.chat.messages").size;
  if (chat.messages.empty()) {
    return FieldError(chat_field + ".messages", "empty",
                      fmt::format("{} to {} messages", limit.min, limit.max));
  }
  return CheckCount(chat_field + ".messages", chat.messages.size(), limit.max);
}

}  // namespace

size_t TextBytes(const Prompt& prompt) {
  if (const auto* chat = std::get_if<Chat>(&prompt)) {
    // A template may be slow even for a short conversation: not on the caller's thread.
    constexpr size_t kTemplateBytes = 4096;
    return kTemplateBytes + ChatBytes(*chat);
  }
  const auto* text = std::get_if<std::string>(&prompt);
  return text == nullptr ? 0 : text->size();
}

size_t TextBytes(const std::vector<Prompt>& prompts) {
  size_t bytes = 0;
  for (const Prompt& prompt : prompts) bytes += TextBytes(prompt);
  return bytes;
}

absl::Status CheckPrompt(std::string_view field, const Prompt& prompt, PromptSide side,
                         bool may_be_empty, const ModelFacts& model) {
  if (const auto* ids = std::get_if<TokenIds>(&prompt)) {
    if (ids->empty() && !may_be_empty) {
      return FieldError(fmt::format("{}.ids", field), "empty", "at least 1 token id");
    }
    return CheckIds(field, *ids, VocabSize(side, model));
  }
  if (const auto* chat = std::get_if<Chat>(&prompt)) return CheckChat(field, *chat, model);
  const std::string& text = std::get<std::string>(prompt);
  if (text.empty() && !may_be_empty && !EmptyTextHasTokens(side, model)) {
    return FieldError(fmt::format("{}.text", field), "empty", "at least 1 character");
  }
  return absl::OkStatus();
}

absl::Status CheckLanguage(std::string_view field, std::string_view language,
                           const ModelFacts& model) {
  constexpr size_t kMostNamed = 8;
  if (language.empty() || model.tokenizer->LanguageId(language).has_value()) {
    return absl::OkStatus();
  }
  const std::string value = fmt::format("'{}'", Shorten(std::string(language), kMostLanguageBytes));
  std::vector<std::string> known = model.info.languages;
  if (known.empty()) {
    return FieldError(
        {.field = std::string(field),
         .value = value,
         .text = fmt::format("{} is {}; accepted for multilingual models only, which '{}' is not",
                             field, value, model.options.name)});
  }
  const size_t count = known.size();
  const auto shared = [&](const std::string& name) {
    return std::ranges::mismatch(name, language).in1 - name.begin();
  };
  std::ranges::stable_sort(known, std::greater<>(), shared);
  known.resize(std::min(count, kMostNamed));
  return FieldError(field, value,
                    fmt::format("{}{}", fmt::join(known, ", "),
                                count > kMostNamed ? fmt::format(" ... ({} in all)", count) : ""));
}

absl::Status NoTokens(std::string_view field) {
  return FieldError({.field = std::string(field),
                     .value = "0",
                     .accepted = "at least 1",
                     .text = fmt::format("{} has no tokens", field)});
}

int32_t MaxStepShare(const ModelFacts& model) {
  return std::clamp(model.limits.max_logits_rows / kStepShares, 1, kMostGivenTokens);
}

int32_t StepTokensPerRow(const ModelFacts& model) {
  return std::max(1, model.limits.max_logits_rows / model.limits.max_sequences);
}

absl::Status TooLong(std::string_view field, std::string_view length, int32_t limit,
                     std::string_view hint, const ModelFacts& model) {
  const std::string setting = model.limited_by_setting() ? fmt::format(" (max_model_len is {})",
                                                                       model.options.max_model_len)
                              : model.cached_len > 0     ? " (what the key/value cache holds)"
                                                         : "";
  return FieldError({.field = std::string(field),
                     .value = std::string(length),
                     .accepted = fmt::format("at most {}{}{}", limit, setting, hint),
                     .text = fmt::format("{} has {} tokens", field, length)});
}

absl::Status CheckGenerates(const ModelFacts& model, std::string_view rpc) {
  if (Generates(model.info.task)) return absl::OkStatus();
  return WrongTask(model, rpc,
                   model.info.task == ModelTask::kEncode ? "only encodes" : "only classifies");
}

Truncation ToTruncation(EncodeTruncation truncate) {
  switch (truncate) {
    case EncodeTruncation::kRight:
      return Truncation::kRight;
    case EncodeTruncation::kLeft:
      return Truncation::kLeft;
    case EncodeTruncation::kNone:
      break;
  }
  return Truncation::kNone;
}

absl::StatusOr<TokenIds> TokenizePrompt(std::string_view field, const Prompt& prompt,
                                        const EncodeTextOptions& asked, int32_t limit,
                                        std::string_view hint, const ModelFacts& model) {
  TokenIds ids;
  if (const auto* given = std::get_if<TokenIds>(&prompt)) {
    ids = *given;
  } else {
    std::string rendered;
    EncodeTextOptions options = asked;
    if (const auto* chat = std::get_if<Chat>(&prompt)) {
      const std::string chat_field = fmt::format("{}.chat", field);
      BEAMLINE_RETURN_IF_ERROR(model.chat->CheckRead(*chat, chat_field));
      BEAMLINE_ASSIGN_OR_RETURN(rendered, model.chat->Render(*chat, chat_field));
      options.add_special_tokens = false;  // the template has written all special tokens
    }
    const std::string& text =
        std::holds_alternative<Chat>(prompt) ? rendered : std::get<std::string>(prompt);
    const bool truncates = options.truncation != Truncation::kNone;
    if (truncates && model.tokenizer->num_template_tokens() > limit) {
      return TooLong(field, fmt::format("at least {}", model.tokenizer->num_template_tokens()),
                     limit, "", model);
    }
    if (!truncates && IsFarTooLong(text, limit)) {
      return TooLong(field, AtLeastTokens(text), limit, hint, model);
    }
    BEAMLINE_ASSIGN_OR_RETURN(ids, EncodeText(fmt::format("{}.text", field), text, options, model));
  }
  if (static_cast<int64_t>(ids.size()) > limit && asked.truncation == Truncation::kNone) {
    return TooLong(field, std::to_string(ids.size()), limit, hint, model);
  }
  return ids;
}

absl::StatusOr<TokenIds> TokenizeWithin(std::string_view field, Prompt&& prompt,
                                        EncodeTruncation truncate, std::string_view hint,
                                        const ModelFacts& model) {
  EncodeTextOptions options;
  options.max_tokens = model.info.max_input_tokens;
  options.truncation = ToTruncation(truncate);
  auto* const given = std::get_if<TokenIds>(&prompt);
  const auto num_given = given == nullptr ? 0 : static_cast<int64_t>(given->size());
  if (num_given > 0 && num_given <= options.max_tokens) return std::move(*given);
  BEAMLINE_ASSIGN_OR_RETURN(
      TokenIds ids, TokenizePrompt(field, prompt, options, options.max_tokens, hint, model));
  if (static_cast<int64_t>(ids.size()) > options.max_tokens) {  // ids were not truncated by the
                                                                // tokenizer
    const auto excess = static_cast<std::ptrdiff_t>(ids.size()) - options.max_tokens;
    truncate == EncodeTruncation::kLeft ? ids.erase(ids.begin(), ids.begin() + excess)
                                        : ids.erase(ids.end() - excess, ids.end());
  }
  if (ids.empty()) return NoTokens(field);
  return ids;
}

absl::StatusOr<std::vector<InputToken>> TokenizeText(std::string_view field,
                                                     const std::string& text,
                                                     EncodeTruncation truncate,
                                                     const ModelFacts& model) {
  const int32_t limit = model.info.max_input_tokens;
  EncodeTextOptions options;
  options.max_tokens = limit;
  options.truncation = ToTruncation(truncate);
  const bool truncates = options.truncation != Truncation::kNone;
  if (!truncates && IsFarTooLong(text, limit)) {
    return TooLong(field, AtLeastTokens(text), limit, kTruncateHint, model);
  }
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<Token> tokens,
                            TokensOf(std::string(field), text, options, model));
  if (!truncates && static_cast<int64_t>(tokens.size()) > limit) {
    return TooLong(field, fmt::to_string(tokens.size()), limit, kTruncateHint, model);
  }
  if (tokens.empty()) return NoTokens(field);
  std::vector<InputToken> input;
  input.reserve(tokens.size());
  for (const Token& token : tokens) {
    input.push_back({.id = token.id,
                     .begin = token.begin,
                     .end = token.end,
                     .of_template = token.special && token.begin == token.end});
  }
  return input;
}

absl::Status CheckBytesFit(std::string_view field, size_t bytes, const ModelFacts& model) {
  const int32_t limit = model.info.max_input_tokens;
  if (!IsFarTooLong(bytes, limit)) return absl::OkStatus();
  return TooLong(field, AtLeastTokens(bytes), limit, "", model);
}

absl::StatusOr<TokenIds> TokenizeAround(std::string_view field, const std::string& text,
                                        TextRange part, EncodeTruncation truncate,
                                        const ModelFacts& model) {
  const int32_t limit = model.info.max_input_tokens;
  if (truncate == EncodeTruncation::kNone && IsFarTooLong(text, limit)) {
    return TooLong(field, AtLeastTokens(text), limit, kTruncateHint, model);
  }
  BEAMLINE_ASSIGN_OR_RETURN(std::vector<Token> tokens,
                            TokensOf(std::string(field), text, {}, model));
  DropDoubled(tokens);
  const auto excess = static_cast<std::ptrdiff_t>(tokens.size()) - limit;
  if (excess > 0) {
    const auto is_of_part = [&](const Token& token) {
      return static_cast<size_t>(token.begin) >= part.begin && token.begin < token.end &&
             static_cast<size_t>(token.end) <= part.end;
    };
    // Includes tokens without characters between them.
    const auto first = std::ranges::find_if(tokens, is_of_part);
    const auto last =
        std::find_if(tokens.rbegin(), std::make_reverse_iterator(first), is_of_part).base();
    const bool suffices = last - first >= excess;
    if (truncate == EncodeTruncation::kNone || !suffices) {
      return TooLong(
          field, fmt::to_string(tokens.size()), limit,
          fmt::format(", with what the model reads around it{}", suffices ? kTruncateHint : ""),
          model);
    }
    truncate == EncodeTruncation::kLeft ? tokens.erase(first, first + excess)
                                        : tokens.erase(last - excess, last);
  }
  if (tokens.empty()) return NoTokens(field);
  TokenIds ids;
  ids.reserve(tokens.size());
  for (const Token& token : tokens) ids.push_back(token.id);
  return ids;
}

absl::StatusOr<TokenIds> TokenizePart(std::string_view field, const std::string& text,
                                      Truncation truncation, const ModelFacts& model) {
  const int32_t limit = model.info.max_input_tokens;
  if (truncation == Truncation::kNone && IsFarTooLong(text, limit)) {
    return TooLong(field, AtLeastTokens(text), limit, kTruncateHint, model);
  }
  return EncodeText(std::string(field), text, {.add_special_tokens = false}, model);
}

absl::StatusOr<TokenIds> TokenizeInput(const Prompt& prompt, std::string_view language,
                                       const ModelFacts& model) {
  BEAMLINE_ASSIGN_OR_RETURN(TokenIds ids,
                            TokenizePrompt("prompt", prompt, {.language = std::string(language)},
                                           model.info.max_input_tokens, "", model));
  const int32_t bos = model.description.generation.bos_token_id;
  if (ids.empty() && model.info.task == ModelTask::kGenerate && bos >= 0) ids.push_back(bos);
  if (ids.empty()) return NoTokens("prompt");
  return ids;
}

absl::Status WrongTask(const ModelFacts& model, std::string_view rpc, std::string_view what) {
  const std::string value = fmt::format("'{}'", model.options.name);
  return FieldError(
      {.field = "model",
       .value = value,
       .text = fmt::format("model is {}, which {}; {} accepts the others", value, what, rpc)});
}

}  // namespace beamline
