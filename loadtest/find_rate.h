// The search for the highest rate that a server holds.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "loadtest/options.h"

namespace beamline::loadtest {

// Probes rates as the flags say, prints the table and writes the files that they name. False when
// no rate holds; an error when the search could not be run or broke off, with the report of what
// was measured before. SIGINT ends it with the report, too.
absl::StatusOr<bool> FindRate(const FindRateFlags& flags, const std::string& command);

}  // namespace beamline::loadtest
