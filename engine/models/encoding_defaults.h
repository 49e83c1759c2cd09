// The files that sentence-transformers puts beside a model.
#pragma once

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"

namespace beamline {

// Whether the folder has a modules.json.
bool HasModules(const Checkpoint& checkpoint);

// modules.json, the pooling module's config.json, sentence_bert_config.json and
// config_sentence_transformers.json, as sentence-transformers reads them. A folder without
// modules.json is one of transformers, whatever other file lies in it: mean pooling. Modules,
// pooling modes and settings that Beamline does not compute are errors.
absl::StatusOr<EncodingDefaults> ReadEncodingDefaults(const Checkpoint& checkpoint,
                                                      const StackSpec& encoder);

}  // namespace beamline
