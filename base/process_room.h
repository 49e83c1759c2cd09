// Checks the limits of the process for threads, descriptors and address space.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace beamline {

// RESOURCE_EXHAUSTED, with both numbers, if fewer than `num_threads` more threads can be started.
// Starts and ends them to find out. Libraries abort the process if they cannot start a thread
// later.
absl::Status CheckThreadRoom(int num_threads);

// The same for open file descriptors: gRPC aborts the process if it cannot open one.
absl::Status CheckDescriptorRoom(int num_descriptors);

// The same for address space (ulimit -v): the threads' stacks and `bytes` more. Libraries abort the
// process if the system refuses them a thread or memory.
absl::Status CheckAddressRoom(int num_threads, int64_t bytes);

}  // namespace beamline
