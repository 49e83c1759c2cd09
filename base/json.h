// JSON that nobody vouches for: bounded in depth and in values, names within an object unique,
// nothing behind the value. Whoever reads the file bounds its size.
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
// Names of members count too. A value of two bytes may take some eighty of memory; a tokenizer of a
// million tokens has three million.
inline constexpr size_t kMaxJsonValues = size_t{1} << 23;

// Parses a JSON value. Faults (syntax with its byte position, more than the limits, a name twice in
// one object) are INVALID_ARGUMENT; `source` names the file in them. `max_parts`: of texts, lists,
// objects and names, which take more memory than numbers.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view source,
                                         size_t max_parts = kMaxJsonValues);

// The same, where a value that is not an object is a fault too.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view source,
                                               size_t max_parts = kMaxJsonValues);

// The value when it is a whole number from min to max; nullopt otherwise. No cast of the library's
// tells, which cuts what does not fit.
std::optional<int64_t> WholeNumber(const nlohmann::json& value, int64_t min, int64_t max);

// A JSON string with its quotes, in ASCII. Bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);
void AppendJsonString(std::string_view text, std::string& out);

}  // namespace beamline
