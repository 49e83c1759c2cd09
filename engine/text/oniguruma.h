// Tokenizer files write their patterns for Oniguruma (Ruby syntax); PCRE2 runs them.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace beamline::text {

// The same pattern for PCRE2 with UTF and UCP: \s, \w, \h and \p{...} mean other characters there.
// INVALID_ARGUMENT for class intersections (&&), which PCRE2 lacks.
absl::StatusOr<std::string> TranslatePattern(std::string_view pattern);

}  // namespace beamline::text
