// JSON from files that nobody vouches for: bounded in size and depth, names within an object
// unique.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace beamline {

// Parses a JSON object. Faults (syntax with its byte position, nesting deeper than 64, a name twice
// in one object, a value that is not an object) are INVALID_ARGUMENT; `source` names the file in
// them.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view source);

// The same, or an array or any other value.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view source);

// Reads `path` whole. NOT_FOUND when there is no such file; files over 64 MiB are refused.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// ReadTextFile and ParseJsonObject in one.
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path);

}  // namespace beamline
