// The ranks of a model that is split.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "engine/loading/make_backend.h"
#include "engine/transformer/ranked_backend.h"

namespace beamline {

// A rank on each of `devices`, at least two, as MakeBackend takes them: different GPUs, or "cpu" as
// often as there are ranks: threads, each with its part of what `cpu` says, which inherit the cores
// of the calling thread. Errors as MakeBackend's; of GPUs that cannot be ranks together as
// MakeCudaCommunicators'. REQUIRES: CheckDivides of the model.
absl::StatusOr<std::unique_ptr<RankedBackend>> MakeRanks(std::span<const std::string> devices,
                                                         const ModelNeeds& needs,
                                                         const CpuShare& cpu,
                                                         const GpuMemoryLimit& memory = {});

}  // namespace beamline
