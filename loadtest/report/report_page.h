// The report of a run as one page for a browser, which refers to nothing outside itself.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "loadtest/report/report.h"

namespace beamline::loadtest {

// Every figure of the page stands in a <data> element with its whole value and, as data-json, its
// place in the result file (result_json.h). The page is well-formed XML, too.
std::string ReportPage(const RunReport& report);

absl::Status WriteReportPage(const RunReport& report, const std::string& path);

}  // namespace beamline::loadtest
