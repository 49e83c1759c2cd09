// How transformers' tokenizer classes change a tokenizer.json.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// Classes for folders that may have no tokenizer.json (legacy_files.h).
inline constexpr std::string_view kLlamaTokenizer = "LlamaTokenizer";
inline constexpr std::string_view kGemmaTokenizer = "GemmaTokenizer";
inline constexpr std::string_view kMarianTokenizer = "MarianTokenizer";
inline constexpr std::string_view kMpNetTokenizer = "MPNetTokenizer";
inline constexpr std::string_view kDebertaV2Tokenizer = "DebertaV2Tokenizer";

// The class that transformers chooses, without the suffix "Fast", and under one name if it has
// several. It is taken from tokenizer_config.json, else config.json, else the model_type. For
// Mistral, Mixtral, ModernBERT, OLMo 2, Phi-3 and Qwen 2 only the model_type counts. Empty: the
// class that uses tokenizer.json unchanged. `model_config` is null if there is no config.json.
std::string TokenizerClassName(const TokenizerConfig& config, const nlohmann::json& model_config);

// Applies to `tokenizer` what transformers' classes do. They build parts from the settings of
// tokenizer_config.json and ignore these parts of tokenizer.json:
// - BertTokenizer, RobertaTokenizer, XLMRobertaTokenizer, DebertaV2Tokenizer and GPTNeoXTokenizer
//   build the normalizer, the pre-tokenizer, the decoder and the template.
// - GPT2Tokenizer, LlamaTokenizer (if words are not spelled in bytes), CodeLlamaTokenizer,
//   GemmaTokenizer and Qwen2Tokenizer build the same, except the template.
//
// Other classes leave the file unchanged. Faults in replaced parts are errors that name `place`.
absl::Status ApplyTokenizerClass(const TokenizerConfig& config, const nlohmann::json& model_config,
                                 const std::string& place, nlohmann::json& tokenizer);

// For a folder without tokenizer.json: adds the tokens around a text that add_bos_token and
// add_eos_token request, for classes that leave the template to the file.
absl::Status SetConfiguredTemplate(const TokenizerConfig& config,
                                   const nlohmann::json& model_config, nlohmann::json& tokenizer);

// The same with default tokens for bos_token and eos_token.
absl::Status SetTokensAround(const TokenizerConfig& config, std::string_view begin,
                             std::string_view end, nlohmann::json& tokenizer);

}  // namespace beamline::text
