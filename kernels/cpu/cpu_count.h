// How many cores this process may use.
#pragma once

#include <string>

namespace beamline::cpu {

// The smaller of the affinity mask and the control group's quota (version 2 or 1); at least 1.
// `root`: where /proc and /sys are.
int AvailableCpus(const std::string& root = "");

}  // namespace beamline::cpu
