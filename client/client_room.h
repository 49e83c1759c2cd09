// Whether the system lets a program be a client at all.
#pragma once

#include "absl/status/status.h"

namespace beamline {

// RESOURCE_EXHAUSTED, which says what is missing, where the limits of threads and of open files
// leave too little for gRPC's threads and descriptors, a few of a program's own, and so many more.
// gRPC ends a program, or never lets it end, where it gets none. To be asked before the first
// channel is opened.
absl::Status CheckClientRoom(int num_more_threads = 0, int num_more_descriptors = 0);

}  // namespace beamline
