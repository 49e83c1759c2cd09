// Rows of the files in tests/golden.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace beamline {

// The objects of a file of JSON lines, `name` below tests/golden.
std::vector<nlohmann::json> GoldenRows(const std::string& name);
// The file itself, one JSON value.
nlohmann::json GoldenFile(const std::string& name);

}  // namespace beamline
