// Validates a model's generation defaults at load, before any request uses them.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "engine/decoding/resolved_decoding.h"
#include "engine/models/models.h"
#include "engine/text/tokenizer.h"

namespace beamline {

// Maximum sequences of a request that sets no decoding.
int32_t DefaultSequences(const GenerationDefaults& defaults);

// Checks that a request which sets only the kind of decoding would be accepted; uses the checks of
// requests. The error names `file` (the source of the defaults), the field and the accepted range.
absl::Status CheckGenerationDefaults(std::string_view file, const GenerationDefaults& defaults,
                                     const Tokenizer& tokenizer, const DecodingLimits& limits);

}  // namespace beamline
