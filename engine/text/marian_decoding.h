// From SentencePiece pieces back to text, as MarianTokenizer.convert_tokens_to_string does it.
#pragma once

#include "engine/text/added_tokens.h"
#include "engine/text/decode_stage.h"
#include "engine/text/sentencepiece_model.h"

namespace beamline::text {

// Takes pieces as tokens. `special_tokens` are written out as they stand, with a space behind; what
// is between them is decoded on its own. Both must outlive the chain.
DecodeChain MakeMarianDecoder(const SentencePieceModel& model, const AddedTokens& special_tokens);

}  // namespace beamline::text
