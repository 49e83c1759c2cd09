// Parses YAML that a user wrote.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "yaml-cpp/yaml.h"

namespace beamline {

// The single document of `text`; a null node if there is none. INVALID_ARGUMENT "WHAT:LINE:
// PROBLEM" for invalid YAML or a second document. Replaces YAML::LoadAll, which loops forever on
// text that continues after the end of its document: "[a]]".
absl::StatusOr<YAML::Node> LoadYaml(std::string_view what, const std::string& text);

}  // namespace beamline
