// The ranks of a model that is split.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/model.h"
#include "engine/loading/make_backend.h"
#include "engine/transformer/ranked_backend.h"

namespace beamline {

// INVALID_ARGUMENT for a deterministic model whose ranks are to be GPUs: their sums go other ways
// for few values than for many.
absl::Status CheckOneGpu(const ModelOptions& options, bool on_gpu);

// A rank on each of `devices`, at least two, as MakeBackend takes them: different GPUs, or "cpu" as
// often as there are ranks: threads, each with its part of what `cpu` says, which inherit the cores
// of the calling thread. They are those of the stages one behind the other. Errors as
// MakeBackend's; of GPUs that cannot be ranks together as MakeCudaCommunicators'. REQUIRES:
// CheckDivides and CheckStages of the model.
absl::StatusOr<std::unique_ptr<RankedBackend>> MakeRanks(std::span<const std::string> devices,
                                                         const ModelNeeds& needs,
                                                         const CpuShare& cpu,
                                                         const GpuMemoryLimit& memory = {},
                                                         int num_stages = 1);

// A rank that has the CPU alone, with all that `cpu` says.
std::unique_ptr<Backend> MakeCpuRank(const CpuShare& cpu);

// Connects devices of this process, which are those of the stages one behind the other.
std::vector<RankGroup::Rank> ConnectThreads(std::vector<std::unique_ptr<Backend>> devices,
                                            int num_stages);

}  // namespace beamline
