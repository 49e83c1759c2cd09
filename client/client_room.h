// Checks that the system's limits let the process be a client.
#pragma once

#include "absl/status/status.h"

namespace beamline {

// RESOURCE_EXHAUSTED, with what is missing, if the limits of threads or open files are too low.
// Counts gRPC's threads and descriptors, a few of the program's own, and the given numbers of more.
// Without this check gRPC aborts the process, or hangs, when it gets none. Call it before the first
// channel is opened.
absl::Status CheckClientRoom(int num_more_threads = 0, int num_more_descriptors = 0);

}  // namespace beamline
