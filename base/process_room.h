// What the system still lets the process have.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace beamline {

// RESOURCE_EXHAUSTED, with both numbers, when fewer than `num_threads` more can be started. They
// are started, and end before it returns: libraries that want one later end the process without it.
absl::Status CheckThreadRoom(int num_threads);

// The same of descriptors that can be opened: gRPC ends the process where it wants one and gets
// none.
absl::Status CheckDescriptorRoom(int num_descriptors);

// The same of address space (ulimit -v), for the stacks of the threads and `bytes` beside:
// libraries whose thread or memory the system refuses end the process.
absl::Status CheckAddressRoom(int num_threads, int64_t bytes);

}  // namespace beamline
