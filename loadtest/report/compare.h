// Several results side by side.
#pragma once

#include <string>
#include <vector>

#include "loadtest/report/result_json.h"

namespace beamline::loadtest {

// A row a result.
std::string FormatComparison(const std::vector<Result>& results);

}  // namespace beamline::loadtest
