// Runs one load test, from its flags to its report.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "loadtest/options.h"

namespace beamline::loadtest {

// Runs the test, prints the report and writes the requested files. Returns false if requests failed
// unexpectedly or answers differed, and an error if the test could not run. SIGINT ends the run
// early, with a report of what was done so far.
absl::StatusOr<bool> RunLoadTest(const RunFlags& flags, const std::string& command);

}  // namespace beamline::loadtest
