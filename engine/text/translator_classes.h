// How transformers' classes of encoder-decoders with SentencePiece models change a tokenizer.json;
// tokenizer_class.h covers other classes. Faults are errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

inline constexpr std::string_view kT5Tokenizer = "T5Tokenizer";

// Marks these tokens as special if the vocabulary has them and the file does not list them itself.
void MarkSpecials(std::vector<std::string> names, nlohmann::json& tokenizer);

absl::Status ApplyT5(const TokenizerConfig& config, nlohmann::json& tokenizer);
absl::Status ApplyPegasus(const TokenizerConfig& config, nlohmann::json& tokenizer);
// For these three, the special tokens around a text depend on its language
// (multilingual_tokenizer.h).
absl::Status ApplyMBart(const TokenizerConfig& config, nlohmann::json& tokenizer);
absl::Status ApplyMBart50(const TokenizerConfig& config, nlohmann::json& tokenizer);
absl::Status ApplyNllb(const TokenizerConfig& config, nlohmann::json& tokenizer);

}  // namespace beamline::text
