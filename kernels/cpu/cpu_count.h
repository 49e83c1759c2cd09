// How many cores this process may use.
#pragma once

namespace beamline::cpu {

// The smaller of the affinity mask and the control group's quota (version 2 or 1); at least 1.
int AvailableCpus();

}  // namespace beamline::cpu
