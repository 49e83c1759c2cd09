// Memory that will be written has its pages before, so that nobody who writes waits for the system.
#pragma once

#include <atomic>
#include <cstddef>

namespace beamline::cpu {

// Has the system give the whole pages among `bytes` bytes at `data` that it has not given yet, of 2
// MiB where it has such, 0.1 s and more a GiB; their content stays. Other threads may use the
// memory meanwhile. Ends early, with the rest to come when it is written, where the system and the
// process's control groups have less than 256 MiB left, where the system cannot be asked (Linux
// before 5.14), and once `stop`, which may be null, is set. Returns the bytes that were asked for.
// REQUIRES: private anonymous memory.
size_t PopulatePages(void* data, size_t bytes, const std::atomic<bool>* stop = nullptr);

}  // namespace beamline::cpu
