// The run second by second, for spreadsheets and scripts.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "loadtest/report/report.h"

namespace beamline::loadtest {

// A header and a line for each second since the run's start. Cells without a value are empty: the
// latencies of a second in which nothing ended well, the server's figures of one without a scrape.
std::string SecondsCsv(const RunReport& report);

absl::Status WriteSecondsCsv(const RunReport& report, const std::string& path);

}  // namespace beamline::loadtest
