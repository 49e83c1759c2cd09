// Reads the files that sentence-transformers adds to a model.
#pragma once

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"

namespace beamline {

// Whether the folder has a modules.json.
bool HasModules(const Checkpoint& checkpoint);

// Reads modules.json, the pooling module's config.json, sentence_bert_config.json and
// config_sentence_transformers.json, as sentence-transformers does. A folder without modules.json
// counts as a transformers model with mean pooling; its other files are ignored. Unsupported
// modules, pooling modes and settings are errors.
absl::StatusOr<EncodingDefaults> ReadEncodingDefaults(const Checkpoint& checkpoint,
                                                      const StackSpec& encoder);

}  // namespace beamline
