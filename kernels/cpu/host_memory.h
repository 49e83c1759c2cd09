// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace beamline::cpu {

// Bytes that the system and the process's control groups (version 2 or 1) have left, with what
// they would take from the page cache for it. `root`: where /proc and /sys lie, for tests.
int64_t FreeHostMemory(const std::string& root = "");

}  // namespace beamline::cpu
