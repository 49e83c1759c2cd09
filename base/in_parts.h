// Work over a long range, divided over threads that exist for that time.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace beamline {

// Calls body(begin, end) for consecutive parts of [0, count), each of at most `part` items and each
// once, on the calling thread and up to most_threads - 1 others, no more than there are cores and
// parts. Returns when all are done. For work of milliseconds: starting a thread takes some 30 us.
// Where the system has no thread left, the calling one does it. REQUIRES: part > 0. `body` does not
// throw.
void InParts(size_t count, size_t part, int most_threads,
             absl::FunctionRef<void(size_t begin, size_t end)> body);

}  // namespace beamline
