// What transformers' classes of encoder-decoders over SentencePiece's pieces make of a
// tokenizer.json, as tokenizer_class.h has it of others. Faults are named.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

inline constexpr std::string_view kT5Tokenizer = "T5Tokenizer";

// Lists those of these tokens that the vocabulary has, and the file does not list itself, as
// special.
void MarkSpecials(std::vector<std::string> names, nlohmann::json& tokenizer);

absl::Status ApplyT5(const TokenizerConfig& config, nlohmann::json& tokenizer);
absl::Status ApplyPegasus(const TokenizerConfig& config, nlohmann::json& tokenizer);
// Of these three the special tokens around a text are of its language (multilingual_tokenizer.h).
absl::Status ApplyMBart(const TokenizerConfig& config, nlohmann::json& tokenizer);
absl::Status ApplyMBart50(const TokenizerConfig& config, nlohmann::json& tokenizer);
absl::Status ApplyNllb(const TokenizerConfig& config, nlohmann::json& tokenizer);

}  // namespace beamline::text
