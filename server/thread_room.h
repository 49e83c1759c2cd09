// The threads that the system lets the process have.
#pragma once

#include "absl/status/status.h"

namespace beamline {

// RESOURCE_EXHAUSTED, with both numbers, when fewer than `num_threads` more can be started. They
// are started, and end before it returns: libraries that want one later end the process without it.
absl::Status CheckThreadRoom(int num_threads);

}  // namespace beamline
