// generation_config.json, read as transformers reads it.
#pragma once

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"

namespace beamline {

// From generation_config.json; without one from config.json, and what is not there either from
// `family`. Fields that would change the answers and that Beamline does not know are errors.
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const Checkpoint& checkpoint,
                                                          const TransformerSpec& spec,
                                                          GenerationDefaults family);

}  // namespace beamline
