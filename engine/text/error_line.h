// Error messages as one short line that starts with the location of the fault.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace beamline {

// The status with its message shortened by Shorten(message, max_bytes) (base/text.h). Payloads are
// dropped.
absl::Status WithShortMessage(const absl::Status& status, size_t max_bytes);

// The status with "<place>: " before its message, unless the message already starts with the place.
absl::Status WithPlace(std::string_view place, const absl::Status& status);

}  // namespace beamline
