// Per-second figures of a run, for spreadsheets and scripts.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "loadtest/report/report.h"

namespace beamline::loadtest {

// A header and a line for each second since the run's start. Cells without a value are empty:
// latencies if nothing succeeded in the second, the server's figures if there was no scrape.
std::string SecondsCsv(const RunReport& report);

absl::Status WriteSecondsCsv(const RunReport& report, const std::string& path);

}  // namespace beamline::loadtest
