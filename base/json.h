// Parses untrusted JSON. Depth and number of values are bounded, names within an object are unique,
// and nothing follows the value. The code that reads the file bounds its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace beamline {

inline constexpr size_t kMaxJsonDepth = 64;
// Names of members count too. A two-byte value can take some 80 bytes of memory. A tokenizer of a
// million tokens has three million values.
inline constexpr size_t kMaxJsonValues = size_t{1} << 23;

// Parses a JSON value. Faults (syntax with its byte position, exceeded limits, a repeated name in
// an object) are INVALID_ARGUMENT; `source` names the file in them. `max_parts` limits texts,
// lists, objects and names, which take more memory than numbers.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view source,
                                         size_t max_parts = kMaxJsonValues);

// The same; a value that is not an object is also a fault.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view source,
                                               size_t max_parts = kMaxJsonValues);

// The value if it is a whole number in [min, max], else nullopt. The library's casts would silently
// truncate.
std::optional<int64_t> WholeNumber(const nlohmann::json& value, int64_t min, int64_t max);

// A JSON string with its quotes, in ASCII. Bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);
void AppendJsonString(std::string_view text, std::string& out);

}  // namespace beamline
