// The merge of what ranks have found, where one thread can read all of it
// (kernels/communicator.h).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/communicator.h"

namespace beamline::cpu {

// One row: what `ranks` found, in the order of their columns, becomes what each of `targets` has
// merged.
void MergeCandidatesOfRow(std::span<const MergeCandidatesParams* const> ranks, int64_t row,
                          std::span<const MergeCandidatesParams* const> targets);

}  // namespace beamline::cpu
