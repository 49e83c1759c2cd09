// Tokenizers of multilingual translators: a special token beside the text names its language.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_config.h"

namespace beamline::text {

// Classes of transformers.
inline constexpr std::string_view kMBartTokenizer = "MBartTokenizer";
inline constexpr std::string_view kMBart50Tokenizer = "MBart50Tokenizer";
inline constexpr std::string_view kNllbTokenizer = "NllbTokenizer";
inline constexpr std::string_view kM2M100Tokenizer = "M2M100Tokenizer";

// Whether a token in the class's vocabulary is a language code: de_DE, deu_Latn, __de__.
bool IsLanguageCode(std::string_view tokenizer_class, std::string_view token);

// Wraps `inner`, which adds no special tokens, so that the class's tokens are added: the language
// code and the end token. Tokenizers of other classes are returned unchanged. src_lang and tgt_lang
// of tokenizer_config.json are the default languages; INVALID_ARGUMENT if the vocabulary does not
// have them.
absl::StatusOr<std::unique_ptr<Tokenizer>> AddLanguages(std::string_view tokenizer_class,
                                                        const TokenizerConfig& config,
                                                        std::unique_ptr<Tokenizer> inner);

}  // namespace beamline::text
