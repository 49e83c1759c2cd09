// Ranks as threads of one process that read and write each other's memory.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "kernels/communicator.h"

namespace beamline {

// One communicator for each rank, for a thread each. Reduces float32. The last one of them to go
// takes what they share along.
std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(
    int size, std::chrono::nanoseconds time_limit = kRankTimeLimit);

}  // namespace beamline
