// Merges the candidates of ranks, for ranks that are threads of one process
// (kernels/communicator.h).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/communicator.h"

namespace beamline::cpu {

// Merges one row. `ranks`: their candidates, in the order of their columns. `targets`: receive the
// result.
void MergeCandidatesOfRow(std::span<const MergeCandidatesParams* const> ranks, int64_t row,
                          std::span<const MergeCandidatesParams* const> targets);

}  // namespace beamline::cpu
