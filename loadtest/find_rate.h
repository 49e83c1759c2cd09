// Searches the maximum sustainable rate of a server.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "loadtest/options.h"

namespace beamline::loadtest {

// Probes rates as the flags say, prints the table and writes the requested files. Returns false if
// no rate holds. Returns an error if the search could not run or broke off; what was measured
// before is still reported. SIGINT ends the search, also with a report.
absl::StatusOr<bool> FindRate(const FindRateFlags& flags, const std::string& command);

}  // namespace beamline::loadtest
