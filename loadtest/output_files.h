// The files that a test writes in the end, checked before it begins.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace beamline::loadtest {

// Pairs of a flag and its path; that each can be written, and none twice. Empty paths are none.
absl::Status CheckOutputs(const std::vector<std::pair<const char*, std::string>>& outputs);

}  // namespace beamline::loadtest
