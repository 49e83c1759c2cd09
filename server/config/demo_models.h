// Where the demo models lie that a server without --model serves.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"

namespace beamline {

// Looks into $BEAMLINE_MODELS, ../share/beamline/models beside the program, and models/ of the
// source tree it was built from; of the first that has translate-en-de those that are there.
// NOT_FOUND naming those folders.
absl::StatusOr<std::vector<ModelOptions>> FindDemoModels();

}  // namespace beamline
