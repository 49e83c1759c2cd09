// From SentencePiece pieces back to text, as convert_tokens_to_string of MarianTokenizer and
// M2M100Tokenizer does it.
#pragma once

#include <string_view>

#include "engine/text/added_tokens.h"
#include "engine/text/decode_stage.h"
#include "engine/text/sentencepiece_model.h"

namespace beamline::text {

// Takes pieces as tokens. `special_tokens` are written out as they stand, `behind_special` behind;
// what is between them is decoded on its own. Both must outlive the chain.
DecodeChain MakeMarianDecoder(const SentencePieceModel& model, const AddedTokens& special_tokens,
                              std::string_view behind_special);

}  // namespace beamline::text
