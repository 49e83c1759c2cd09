// Splits work over a long range between temporary threads.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace beamline {

// Calls body(begin, end) for consecutive parts of [0, count), each of at most `part` items, each
// once. Runs on the calling thread and up to most_threads - 1 others, limited by the number of
// cores and parts. Returns when all parts are done. Meant for work of milliseconds: starting a
// thread takes some 30 us. If the system has no thread left, fewer threads do the work. REQUIRES:
// part > 0; `body` does not throw.
void InParts(size_t count, size_t part, int most_threads,
             absl::FunctionRef<void(size_t begin, size_t end)> body);

}  // namespace beamline
