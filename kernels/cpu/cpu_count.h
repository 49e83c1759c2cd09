// The number of cores that this process may use.
#pragma once

#include <string>

namespace beamline::cpu {

// The smaller of the affinity mask and the cgroup quota (version 2 or 1); at least 1. `root`:
// prefix of /proc and /sys.
int AvailableCpus(const std::string& root = "");

}  // namespace beamline::cpu
