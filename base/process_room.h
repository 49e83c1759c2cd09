// What the system still lets the process have.
#pragma once

#include "absl/status/status.h"

namespace beamline {

// RESOURCE_EXHAUSTED, with both numbers, when fewer than `num_threads` more can be started. They
// are started, and end before it returns: libraries that want one later end the process without it.
absl::Status CheckThreadRoom(int num_threads);

// The same of descriptors that can be opened: gRPC ends the process where it wants one and gets
// none.
absl::Status CheckDescriptorRoom(int num_descriptors);

}  // namespace beamline
