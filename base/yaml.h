// YAML that a user wrote.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "yaml-cpp/yaml.h"

namespace beamline {

// The one document of `text`; null when there is none. INVALID_ARGUMENT "WHAT:LINE: PROBLEM" for
// what is not YAML and for a second document. Instead of YAML::LoadAll, which never ends with a
// text that goes on where its document has ended: "[a]]".
absl::StatusOr<YAML::Node> LoadYaml(std::string_view what, const std::string& text);

}  // namespace beamline
