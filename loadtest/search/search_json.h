// A search's report as JSON (schema "beamline.loadtest.search/1", docs/loadtest.md).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "loadtest/search/search_report.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {

nlohmann::json ToJson(const SearchReport& report);
absl::Status WriteSearchJson(const SearchReport& report, const std::string& path);

}  // namespace beamline::loadtest
