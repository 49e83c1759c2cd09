// Reads generation_config.json as transformers does.
#pragma once

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"

namespace beamline {

// Reads generation_config.json, or config.json if there is none; absent values come from `family`.
// Unsupported fields that would change the answers are errors.
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const Checkpoint& checkpoint,
                                                          const TransformerSpec& spec,
                                                          GenerationDefaults family);

}  // namespace beamline
