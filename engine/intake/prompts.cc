#include "engine/intake/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/status.h"
#include "engine/decoding/option_checks.h"

namespace beamline {
namespace {

// A token is rarely longer than this many bytes: a cheap bound that refuses a novel before
// tokenizing it.
constexpr size_t kMaxBytesPerToken = 256;

// Of the default 256: several such requests run at once, beside others.
constexpr int32_t kMaxStepShare = 64;

absl::Status CheckIds(std::string_view field, const TokenIds& ids, int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}.ids[{}] is {}; accepted: 0 to {}", field, i, ids[i], vocab_size - 1));
  }
  return absl::OkStatus();
}

int32_t VocabSize(PromptSide side, const LoadedModel& model) {
  return side == PromptSide::kInput ? model.info.input_vocab_size : model.info.vocab_size;
}

// As in transformers: a template makes tokens of nothing, and generation without a prompt starts at
// the begin token.
bool EmptyTextHasTokens(PromptSide side, const LoadedModel& model) {
  if (model.info.task == ModelTask::kTranslate || side == PromptSide::kInput) {
    return model.tokenizer->num_template_tokens() > 0 ||
           model.description.generation.bos_token_id >= 0;
  }
  return false;
}

// A special token may lie outside of a vocabulary that its text was not made for.
absl::Status CheckTokens(std::string_view field, const std::vector<Token>& tokens,
                         int32_t vocab_size, const Tokenizer& tokenizer) {
  for (const Token& token : tokens) {
    if (token.id >= 0 && token.id < vocab_size) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}.text has the token \"{}\" of id {} at byte {}; accepted: ids 0 to {}",
                    field, tokenizer.TokenText(token.id), token.id, token.begin, vocab_size - 1));
  }
  return absl::OkStatus();
}

absl::Status TooLong(std::string_view field, std::string_view length, int32_t limit,
                     std::string_view hint) {
  return absl::InvalidArgumentError(
      fmt::format("{} has {} tokens; accepted: at most {}{}", field, length, limit, hint));
}

}  // namespace

size_t TextBytes(const Prompt& prompt) {
  const auto* text = std::get_if<std::string>(&prompt);
  return text == nullptr ? 0 : text->size();
}

size_t TextBytes(const std::vector<Prompt>& prompts) {
  size_t bytes = 0;
  for (const Prompt& prompt : prompts) bytes += TextBytes(prompt);
  return bytes;
}

absl::Status CheckPrompt(std::string_view field, const Prompt& prompt, PromptSide side,
                         bool may_be_empty, const LoadedModel& model) {
  if (const auto* ids = std::get_if<TokenIds>(&prompt)) {
    if (ids->empty() && !may_be_empty) {
      return absl::InvalidArgumentError(
          fmt::format("{}.ids is empty; accepted: at least 1 token id", field));
    }
    return CheckIds(field, *ids, VocabSize(side, model));
  }
  const std::string& text = std::get<std::string>(prompt);
  if (text.empty() && !may_be_empty && !EmptyTextHasTokens(side, model)) {
    return absl::InvalidArgumentError(
        fmt::format("{}.text is empty; accepted: at least 1 character", field));
  }
  return absl::OkStatus();
}

absl::Status CheckPriority(int32_t priority) {
  return CheckInt("priority", priority, -kMaxPriority, kMaxPriority);
}

int32_t MaxStepShare(const LoadedModel& model) {
  return std::min(kMaxStepShare, model.options.max_sequences);
}

absl::StatusOr<TokenIds> TokenizePrompt(std::string_view field, const Prompt& prompt,
                                        const EncodeTextOptions& options, int32_t limit,
                                        std::string_view hint, const LoadedModel& model) {
  TokenIds ids;
  if (const auto* given = std::get_if<TokenIds>(&prompt)) {
    ids = *given;
  } else {
    const std::string& text = std::get<std::string>(prompt);
    const bool truncates = options.truncation != Truncation::kNone;
    if (truncates && model.tokenizer->num_template_tokens() > limit) {
      return TooLong(field, fmt::format("at least {}", model.tokenizer->num_template_tokens()),
                     limit, "");
    }
    if (!truncates && text.size() > std::max(limit, 0) * kMaxBytesPerToken) {
      return TooLong(field, fmt::format("more than {}", text.size() / kMaxBytesPerToken), limit,
                     hint);
    }
    auto tokens = model.tokenizer->Encode(text, options);
    if (!tokens.ok()) {
      return absl::Status(
          tokens.status().code(),
          fmt::format("{}.text: {}", field, std::string(tokens.status().message())));
    }
    const PromptSide side = options.as_target ? PromptSide::kTarget : PromptSide::kInput;
    BEAMLINE_RETURN_IF_ERROR(CheckTokens(field, *tokens, VocabSize(side, model), *model.tokenizer));
    ids.reserve(tokens->size());
    for (const Token& token : *tokens) ids.push_back(token.id);
  }
  if (static_cast<int64_t>(ids.size()) > limit && options.truncation == Truncation::kNone) {
    return TooLong(field, std::to_string(ids.size()), limit, hint);
  }
  return ids;
}

absl::StatusOr<TokenIds> TokenizeInput(const Prompt& prompt, const LoadedModel& model) {
  BEAMLINE_ASSIGN_OR_RETURN(
      TokenIds ids, TokenizePrompt("prompt", prompt, {}, model.info.max_input_tokens, "", model));
  const int32_t bos = model.description.generation.bos_token_id;
  if (ids.empty() && model.info.task == ModelTask::kGenerate && bos >= 0) ids.push_back(bos);
  if (ids.empty()) {
    return absl::InvalidArgumentError("prompt has no tokens; accepted: at least 1");
  }
  return ids;
}

absl::Status WrongTask(const LoadedModel& model, std::string_view rpc, std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("model is '{}', which {}; {} accepts the others", model.options.name, what, rpc));
}

}  // namespace beamline
