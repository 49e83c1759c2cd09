// A search's report as one page for a browser.
#pragma once

#include <string>

#include "loadtest/search/search_report.h"

namespace beamline::loadtest {

// Refers to nothing outside. Each of its figures names its place in ToJson's document of the same
// report in `data-json`.
std::string SearchPage(const SearchReport& report);

}  // namespace beamline::loadtest
