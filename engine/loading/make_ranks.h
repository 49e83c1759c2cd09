// The ranks of a model that is split.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/loading/make_backend.h"
#include "engine/transformer/ranked_backend.h"
#include "engine/transformer/spec.h"
#include "kernels/backend.h"

namespace beamline {

// So many ranks like `device`: on the CPU threads, each with its part of what `cpu` says. Ranks
// inherit the cores of the calling thread. UNIMPLEMENTED on a GPU. REQUIRES: CheckDivides of the
// model.
absl::StatusOr<std::unique_ptr<RankedBackend>> MakeRanks(int num_ranks, const Backend& device,
                                                         const CpuShare& cpu);

}  // namespace beamline
