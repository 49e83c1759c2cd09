// When a sequence ends, for every way of decoding.
#pragma once

#include <cstdint>

#include "engine/api/request.h"
#include "engine/decoding/resolved_decoding.h"
#include "engine/decoding/sequence_text.h"

namespace beamline {

// Why a sequence ends with `token`, its token number `num_tokens` (from 1); kNone: it goes on.
// Stop strings are SequenceText's to find; they count before the length limit.
FinishReason FinishAtToken(const ResolvedDecoding& decoding, int32_t token, int32_t num_tokens);

// False: the token's text does not belong to the answer. A stop id is left out like a stop string
// is; end tokens are left out by skip_special_tokens.
bool TokenHasText(const ResolvedDecoding& decoding, FinishReason reason_at_token);

// How many different tokens end a sequence.
int32_t NumFinishingTokens(const ResolvedDecoding& decoding);

// Whether a stop string may end with a sequence's token number `num_tokens`.
bool StopStringCounts(const ResolvedDecoding& decoding, int32_t num_tokens);

TextOptions ResolvedTextOptions(const ResolvedDecoding& decoding);

}  // namespace beamline
