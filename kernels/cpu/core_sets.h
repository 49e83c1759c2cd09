// Which cores the replicas of a model compute on, when there are several.
#pragma once

#include <string>
#include <vector>

namespace beamline::cpu {

// The cores that this process may run on, divided into `num_sets` sets of nearly equal size that
// share none. Cores of one NUMA node, and the threads of one core, stay together as far as the
// sizes let them. With fewer cores than sets all sets are empty. `root`: where /sys is.
std::vector<std::vector<int>> DivideCores(int num_sets, const std::string& root = "");

// From now on the calling thread, and threads that it starts, run on these cores alone; empty:
// changes nothing. As far as the system lets them.
void RunOn(const std::vector<int>& cores);

}  // namespace beamline::cpu
