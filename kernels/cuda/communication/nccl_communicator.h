// Communicators over NCCL, for ranks with a GPU each: threads of one process, or processes.
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

// One communicator per device, in rank order. Collectives go to the device's stream, in order with
// its operators. They can be captured in CUDA graphs (recorder.h), except MergeCandidates, which
// reads host values. Scratch memory comes from the device, as for an operator.
//
// If a rank waits for its GPU longer than `time_limit` in one call, all ranks fail. Errors as of
// NcclGroup::Create. With RankTraffic::kCollectives, ranks whose GPUs have a suitable link compute
// short all-reduces in each other's memory (peer_all_reduce.h), and NCCL computes the others. If
// the environment variable BEAMLINE_PEER_SUMS is 0, NCCL computes all of them.
//
// REQUIRES: the devices are destroyed before the communicators, or hold no CUDA graphs.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> MakeNcclCommunicators(
    std::span<Device* const> devices, RankTraffic traffic,
    std::chrono::nanoseconds time_limit = kRankTimeLimit);

// The communicator of the rank on `device`. The ranks of other processes join with the same
// place.name. Returns when all have joined. NCCL computes every all-reduce, because memory of
// another process may disappear at any time. Memory of this rank that others access stays valid
// until the communicator is destroyed. UNAVAILABLE if the others do not join within `time_limit`;
// other errors as above.
absl::StatusOr<std::unique_ptr<Communicator>> JoinNcclRanks(
    Device& device, const NcclPlace& place, RankTraffic traffic,
    std::chrono::nanoseconds time_limit = kRankTimeLimit);
// A new name for one such group. Errors as of OpenNccl; UNAVAILABLE if NCCL finds no network
// address.
absl::StatusOr<NcclName> NameNcclRanks();

}  // namespace beamline::cuda
