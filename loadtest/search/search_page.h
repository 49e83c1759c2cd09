// The report of a rate search as an HTML page.
#pragma once

#include <string>

#include "loadtest/search/search_report.h"

namespace beamline::loadtest {

// The page is self-contained. Each figure has its JSON pointer in ToJson of the same report as
// `data-json`.
std::string SearchPage(const SearchReport& report);

}  // namespace beamline::loadtest
