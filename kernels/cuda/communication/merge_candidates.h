// MergeCandidates (kernels/communicator.h) on the GPU of one rank: what travels, and what becomes
// of it.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "kernels/communicator.h"
#include "kernels/cuda/device/device.h"

namespace beamline::cuda {

// received = the `bytes` that each rank sends, one rank behind the other; memory of the device.
// False: after a fault.
using GatherBytes = absl::FunctionRef<bool(const void* sent, void* received, size_t bytes)>;

// `gather` is called once. As TopCandidates it reads values of the host and cannot be recorded.
void MergeCandidates(Device& device, const MergeCandidatesParams& params, int num_ranks,
                     GatherBytes gather);

}  // namespace beamline::cuda
