// Checks of lists that a request's options have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace beamline {

// At most kMaxStopStrings, each of 1 to kMaxStopStringBytes bytes.
absl::Status CheckStopStrings(std::string_view field, const std::vector<std::string>& strings);

// Each id 0 .. vocab_size - 1, at most max_count; errors name the entry:
// "limits.stop_token_ids[3]".
absl::Status CheckTokenIds(std::string_view field, std::span<const int32_t> ids, size_t max_count,
                           int32_t vocab_size);

}  // namespace beamline
