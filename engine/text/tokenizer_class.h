// What transformers' tokenizer classes make of a tokenizer.json.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// transformers builds the normalizer, the pre-tokenizer, the decoder and the template of a
// BertTokenizer, RobertaTokenizer, GPT2Tokenizer (but its template) or XLMRobertaTokenizer by the
// settings of tokenizer_config.json, whatever tokenizer.json has in their place; this does the same
// to `tokenizer`. Without a tokenizer_class the class is that of config.json's model_type;
// `model_config` is null where there is no such file. Other classes leave the file as it is. Faults
// in what is replaced are named, with `place`.
absl::Status ApplyTokenizerClass(const TokenizerConfig& config, const nlohmann::json& model_config,
                                 const std::string& place, nlohmann::json& tokenizer);

}  // namespace beamline::text
