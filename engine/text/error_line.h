// Error messages as one short line, whatever the files and names hold that they quote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace beamline {

// At most max_bytes of valid UTF-8 without control characters; of a longer text the beginning and
// the end, with " ... " between them. REQUIRES: max_bytes >= 16.
std::string Excerpt(std::string_view text, size_t max_bytes);

// The status with Excerpt(message, max_bytes) for its message. Payloads stay behind.
absl::Status WithShortMessage(const absl::Status& status, size_t max_bytes);

// The status with "<place>: " before its message, unless that begins with the place already.
absl::Status WithPlace(std::string_view place, const absl::Status& status);

}  // namespace beamline
