// What transformers' tokenizer classes make of a tokenizer.json.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// Classes that a folder without a tokenizer.json may have (legacy_files.h).
inline constexpr std::string_view kLlamaTokenizer = "LlamaTokenizer";
inline constexpr std::string_view kGemmaTokenizer = "GemmaTokenizer";
inline constexpr std::string_view kMarianTokenizer = "MarianTokenizer";
inline constexpr std::string_view kMpNetTokenizer = "MPNetTokenizer";
inline constexpr std::string_view kDebertaV2Tokenizer = "DebertaV2Tokenizer";

// The class that transformers chooses, without the "Fast" behind it, and under one name where it
// has several: that of tokenizer_config.json, else of config.json, else of the model_type; of
// Mistral, Mixtral, ModernBERT, OLMo 2, Phi-3 and Qwen 2 by the model_type alone. Empty: the one
// that takes tokenizer.json as it is. `model_config` is null where there is no config.json.
std::string TokenizerClassName(const TokenizerConfig& config, const nlohmann::json& model_config);

// transformers builds the normalizer, the pre-tokenizer, the decoder and the template of a
// BertTokenizer, RobertaTokenizer, XLMRobertaTokenizer, DebertaV2Tokenizer or GPTNeoXTokenizer, and
// all but the
// template of a GPT2Tokenizer, LlamaTokenizer (of words that are not spelled in bytes),
// CodeLlamaTokenizer, GemmaTokenizer or Qwen2Tokenizer, by the settings of tokenizer_config.json,
// whatever tokenizer.json has in their place; this does the same to `tokenizer`. Other classes
// leave the file as it is. Faults in what is replaced are named, with `place`.
absl::Status ApplyTokenizerClass(const TokenizerConfig& config, const nlohmann::json& model_config,
                                 const std::string& place, nlohmann::json& tokenizer);

// Of a folder without a tokenizer.json: the tokens around a text that add_bos_token and
// add_eos_token ask for, of the classes that leave the template to the file.
absl::Status SetConfiguredTemplate(const TokenizerConfig& config,
                                   const nlohmann::json& model_config, nlohmann::json& tokenizer);

// The same of a bos_token and an eos_token that are these unless the file says otherwise.
absl::Status SetTokensAround(const TokenizerConfig& config, std::string_view begin,
                             std::string_view end, nlohmann::json& tokenizer);

}  // namespace beamline::text
