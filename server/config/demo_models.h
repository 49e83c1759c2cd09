// Finds the demo models, which a server without --model serves.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"

namespace beamline {

// Searches $BEAMLINE_MODELS, ../share/beamline/models relative to the program's folder, and models/
// of the source tree of the build. Uses the first folder that has translate-en-de, and returns the
// demo models in it. NOT_FOUND naming these folders.
absl::StatusOr<std::vector<ModelOptions>> FindDemoModels();

}  // namespace beamline
