// A model's generation defaults, checked before any request meets them.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/decoding/resolved_decoding.h"
#include "engine/models/models.h"
#include "engine/text/tokenizer.h"

namespace beamline {

// The most sequences that a request runs at once when it chooses no decoding.
int32_t DefaultSequences(const GenerationDefaults& defaults);

// Whether requests that set nothing but the kind of decoding would be accepted: the checks are
// theirs. The error names `file`, where the defaults come from, the field and the accepted range.
absl::Status CheckGenerationDefaults(std::string_view file, const GenerationDefaults& defaults,
                                     const Tokenizer& tokenizer, const DecodingLimits& limits);

}  // namespace beamline
