// Tokenizers of translators between many languages, whose texts stand beside a token that names
// their language.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_config.h"

namespace beamline::text {

// transformers' classes.
inline constexpr std::string_view kMBartTokenizer = "MBartTokenizer";
inline constexpr std::string_view kMBart50Tokenizer = "MBart50Tokenizer";
inline constexpr std::string_view kNllbTokenizer = "NllbTokenizer";
inline constexpr std::string_view kM2M100Tokenizer = "M2M100Tokenizer";

// Whether a token of the class's vocabulary is the code of a language: de_DE, deu_Latn, __de__.
bool IsLanguageCode(std::string_view tokenizer_class, std::string_view token);

// `inner`, which adds no special tokens itself, with those of its class: the code of the text's
// language and the end token. Other classes' tokenizers stay as they are. src_lang and tgt_lang of
// tokenizer_config.json are the languages of texts that come without one; those that the vocabulary
// does not have are INVALID_ARGUMENT.
absl::StatusOr<std::unique_ptr<Tokenizer>> AddLanguages(std::string_view tokenizer_class,
                                                        const TokenizerConfig& config,
                                                        std::unique_ptr<Tokenizer> inner);

}  // namespace beamline::text
