// Range checks of request fields, all with one wording:
//   decoding.sampling.temperature is 3.5; accepted: above 0, at most 2
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace beamline {

// INVALID_ARGUMENT "<field> is <value>; accepted: <accepted>".
absl::Status RangeError(std::string_view field, std::string_view value, std::string_view accepted);

absl::Status CheckInt(std::string_view field, int64_t value, int64_t min, int64_t max);

enum class Lower : uint8_t { kIncluded, kExcluded };
// NaN is never in range.
absl::Status CheckFloat(std::string_view field, float value, float min, float max,
                        Lower lower = Lower::kIncluded);

// "<field> has <size> entries; accepted: at most <max>".
absl::Status CheckCount(std::string_view field, size_t size, size_t max);

// At most kMaxStopStrings, each of 1 to kMaxStopStringBytes bytes.
absl::Status CheckStopStrings(std::string_view field, const std::vector<std::string>& strings);

// Each id 0 .. vocab_size - 1, at most max_count; errors name the entry:
// "limits.stop_token_ids[3]".
absl::Status CheckTokenIds(std::string_view field, std::span<const int32_t> ids, size_t max_count,
                           int32_t vocab_size);

}  // namespace beamline
