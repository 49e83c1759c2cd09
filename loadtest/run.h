// One load test from its flags to its report.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "loadtest/options.h"

namespace beamline::loadtest {

// Runs the test, prints the report and writes the files that the flags name. False when requests
// failed unexpectedly or answers differed; an error when the test could not be run. SIGINT ends the
// run early, with the report of what was done so far.
absl::StatusOr<bool> RunLoadTest(const RunFlags& flags, const std::string& command);

}  // namespace beamline::loadtest
