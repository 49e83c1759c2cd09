// Ranks with a GPU each, which come together by NCCL: threads of one process, or processes.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/communicator.h"
#include "kernels/cuda/communication/nccl_group.h"
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

// The end of the rank on `device` among those of other processes that join by the place's name;
// returns when all have. NCCL makes every sum, since what peers of another process hold may go at
// any time; what they reach of this rank stays until the communicator goes. UNAVAILABLE where the
// others do not come within `time_limit`; else errors as above.
absl::StatusOr<std::unique_ptr<Communicator>> JoinNcclRanks(
    Device& device, const NcclPlace& place, RankTraffic traffic,
    std::chrono::nanoseconds time_limit = kRankTimeLimit);
// A name for one such group.
absl::StatusOr<NcclName> NameNcclRanks();

}  // namespace beamline::cuda
