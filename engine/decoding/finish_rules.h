// When a sequence ends, for all kinds of decoding.
#pragma once

#include <cstdint>

#include "engine/api/request.h"
#include "engine/decoding/resolved_decoding.h"
#include "engine/decoding/sequence_text.h"

namespace beamline {

// Why a sequence ends with `token`, its token number `num_tokens` (from 1); kNone: it continues.
// Does not check stop strings: SequenceText does, and they take precedence over the length limit.
FinishReason FinishAtToken(const ResolvedDecoding& decoding, int32_t token, int32_t num_tokens);

// False: the token's text is not part of the answer. A stop id is left out in the same way as a
// stop string; end tokens are left out by skip_special_tokens.
bool TokenHasText(const ResolvedDecoding& decoding, FinishReason reason_at_token);

// Number of distinct tokens that end a sequence.
int32_t NumFinishingTokens(const ResolvedDecoding& decoding);

// Whether a stop string may match at a sequence's token number `num_tokens`.
bool StopStringCounts(const ResolvedDecoding& decoding, int32_t num_tokens);

TextOptions ResolvedTextOptions(const ResolvedDecoding& decoding);

}  // namespace beamline
