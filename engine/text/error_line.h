// Error messages that begin with the place of the fault and are one short line.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace beamline {

// The status with Shorten(message, max_bytes) (base/text.h) for its message. Payloads stay behind.
absl::Status WithShortMessage(const absl::Status& status, size_t max_bytes);

// The status with "<place>: " before its message, unless that begins with the place already.
absl::Status WithPlace(std::string_view place, const absl::Status& status);

}  // namespace beamline
