// The ranks of a model that is split.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/transformer/ranked_backend.h"
#include "engine/transformer/spec.h"
#include "kernels/backend.h"

namespace beamline {

// So many ranks like `device`: on the CPU threads, each with its share of the `num_threads` compute
// threads (0: all). UNIMPLEMENTED on a GPU. REQUIRES: CheckDivides of the model.
absl::StatusOr<std::unique_ptr<RankedBackend>> MakeRanks(int num_ranks, const Backend& device,
                                                         int num_threads);

}  // namespace beamline
