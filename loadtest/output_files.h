// Checks the output files of a test before it starts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace beamline::loadtest {

// Takes pairs of a flag and its path; empty paths are skipped. Checks that each file can be written
// and no two are the same.
absl::Status CheckOutputs(const std::vector<std::pair<const char*, std::string>>& outputs);

}  // namespace beamline::loadtest
