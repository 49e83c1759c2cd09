// The ranks of a model that is split.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/loading/make_backend.h"
#include "engine/transformer/ranked_backend.h"
#include "engine/transformer/spec.h"
#include "kernels/backend.h"

namespace beamline {

// So many ranks to each of so many stages, like `device`: on the CPU threads, each with its part of
// what `cpu` says. Ranks inherit the cores of the calling thread. UNIMPLEMENTED on a GPU. REQUIRES:
// CheckDivides and CheckStages of the model; more than one rank in all.
absl::StatusOr<std::unique_ptr<RankedBackend>> MakeRanks(int num_ranks, const Backend& device,
                                                         const CpuShare& cpu, int num_stages = 1);

// Connects devices of this process, which are those of the stages one behind the other.
std::vector<RankGroup::Rank> ConnectThreads(std::vector<std::unique_ptr<Backend>> devices,
                                            int num_stages);

}  // namespace beamline
