// The report of a run as a self-contained HTML page.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "loadtest/report/report.h"

namespace beamline::loadtest {

// Every figure is in a <data> element with its full value and, as data-json, its JSON pointer in
// the result file (result_json.h). The page is also well-formed XML.
std::string ReportPage(const RunReport& report);

absl::Status WriteReportPage(const RunReport& report, const std::string& path);

}  // namespace beamline::loadtest
