// Errors of quantization_config, which name the key, its value and what is accepted.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "absl/status/status.h"

namespace beamline {

// UNIMPLEMENTED: "config.json: quantization_config.KEY is VALUE; accepted: ACCEPTED".
absl::Status ConfigFault(std::string_view key, const nlohmann::json& value,
                         std::string_view accepted);
absl::Status ConfigFault(std::string_view key, const nlohmann::json& value,
                         std::span<const std::string_view> accepted);
absl::Status UnknownKey(std::string_view key, std::span<const std::string_view> known);

}  // namespace beamline
