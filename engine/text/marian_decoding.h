// Decodes SentencePiece pieces to text, as convert_tokens_to_string of MarianTokenizer and
// M2M100Tokenizer.
#pragma once

#include <string_view>

#include "engine/text/added_tokens.h"
#include "engine/text/decode_stage.h"
#include "engine/text/sentencepiece_model.h"

namespace beamline::text {

// The chain takes pieces as tokens. `special_tokens` are written literally, followed by
// `behind_special`; the pieces between them are decoded separately. model and special_tokens must
// outlive the chain.
DecodeChain MakeMarianDecoder(const SentencePieceModel& model, const AddedTokens& special_tokens,
                              std::string_view behind_special);

}  // namespace beamline::text
