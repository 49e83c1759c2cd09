// Several results side by side.
#pragma once

#include <string>
#include <vector>

#include "loadtest/report/result_json.h"

namespace beamline::loadtest {

// The names of the columns, then a row a result; the first column is its label.
std::vector<std::vector<std::string>> ComparisonRows(const std::vector<Result>& results);

// The same as a table for terminals.
std::string FormatComparison(const std::vector<Result>& results);

}  // namespace beamline::loadtest
