#include "engine/pool/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "kernels/status.h"

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

absl::Status TooLong(std::string_view field, std::string_view length, int32_t limit,
                     std::string_view hint) {
  return absl::InvalidArgumentError(
      fmt::format("{} has {} tokens; accepted: at most {}{}", field, length, limit, hint));
}

}  // namespace

absl::Status CheckPrompt(std::string_view field, const Prompt& prompt, bool may_be_empty,
                         const LoadedModel& model) {
  if (const auto* ids = std::get_if<TokenIds>(&prompt)) {
    if (ids->empty() && !may_be_empty) {
      return absl::InvalidArgumentError(
          fmt::format("{}.ids is empty; accepted: at least 1 token id", field));
    }
    return CheckIds(field, *ids, model.description.spec.vocab_size);
  }
  const std::string& text = std::get<std::string>(prompt);
  if (text.empty() && !may_be_empty) {
    return absl::InvalidArgumentError(
        fmt::format("{}.text is empty; accepted: at least 1 character", field));
  }
  return absl::OkStatus();
}

absl::Status CheckPriority(int32_t priority) {
  if (priority >= -100 && priority <= 100) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("priority is {}; accepted: -100 to 100", priority));
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
    if (options.truncation == Truncation::kNone && text.size() > limit * kMaxBytesPerToken) {
      return TooLong(field, fmt::format("more than {}", text.size() / kMaxBytesPerToken), limit,
                     hint);
    }
    auto tokens = model.tokenizer->Encode(text, options);
    if (!tokens.ok()) {
      return absl::Status(
          tokens.status().code(),
          fmt::format("{}.text: {}", field, std::string(tokens.status().message())));
    }
    ids.reserve(tokens->size());
    for (const Token& token : *tokens) ids.push_back(token.id);
  }
  if (static_cast<int64_t>(ids.size()) > limit && options.truncation == Truncation::kNone) {
    return TooLong(field, std::to_string(ids.size()), limit, hint);
  }
  return ids;
}

absl::Status WrongTask(const LoadedModel& model, std::string_view rpc, std::string_view what) {
  return absl::InvalidArgumentError(
      fmt::format("model is '{}', which {}; {} accepts the others", model.options.name, what, rpc));
}

}  // namespace beamline
