// JSON from files that nobody vouches for: bounded in size and depth, names within an object
// unique, nothing behind the value.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_file.h"

namespace beamline {

// Parses a JSON value. Faults (syntax with its byte position, nesting deeper than 64, a name twice
// in one object) are INVALID_ARGUMENT; `source` names the file in them.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view source);

// The same, where a value that is not an object is a fault too.
absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view source);

// A file's value; NOT_FOUND when there is no such file.
absl::StatusOr<nlohmann::json> ReadJson(const std::string& path,
                                        int64_t max_bytes = kMaxConfigFileBytes);
absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path,
                                              int64_t max_bytes = kMaxConfigFileBytes);

}  // namespace beamline
