// Ranks as threads of one process with a GPU each, which come together by NCCL.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/communicator.h"
#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// One communicator for each device, rank by rank. Collectives go to the device's stream, in order
// with its operators, and can be recorded (recorder.h) but for MergeCandidates, which reads values
// of the host. Scratch memory is the device's, as an operator's.
// A rank that waits for its GPU longer than `time_limit` in one call fails all of them. Errors as
// NcclGroup::Create. For collectives, ranks whose GPUs have a link for it make short sums in each
// other's memory (peer_all_reduce.h) and NCCL makes the others; all of them where the environment
// variable BEAMLINE_PEER_SUMS is 0.
// The devices are gone before the communicators, or hold no recordings.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeNcclCommunicators(
    std::span<Device* const> devices, RankTraffic traffic,
    std::chrono::nanoseconds time_limit = kRankTimeLimit);

}  // namespace beamline::cuda
