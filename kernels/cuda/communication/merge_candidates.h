// MergeCandidates (kernels/communicator.h) on one rank's GPU: packs the candidates that the rank
// sends, and merges the received ones.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "kernels/communicator.h"
#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// received = the `bytes` of each rank, in rank order. Both pointers are device memory. Returns
// false after a fault.
using GatherBytes = absl::FunctionRef<bool(const void* sent, void* received, size_t bytes)>;

// Calls `gather` once. Like TopCandidates it reads host values and cannot be captured in a CUDA
// graph.
void MergeCandidates(Device& device, const MergeCandidatesParams& params, int num_ranks,
                     GatherBytes gather);

}  // namespace beamline::cuda
