// What a classifier's files say of its classes: config.json, and sentence-transformers' files of a
// cross-encoder.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/config_fields.h"
#include "engine/models/models.h"

namespace beamline {

// The labels of id2label, which must be those of ids from 0 on; without it "LABEL_0" ..., of
// num_labels or, as in transformers, of two classes. Faults of `config`, whose object is `json`.
std::vector<std::string> ReadLabels(const nlohmann::json& json, ConfigFields& config);

// Labels and functions; of `encoding`, the longest input and whether texts are lowercased, which a
// folder with modules.json may say. Errors name the file and the field.
absl::Status ReadClassifyDefaults(const Checkpoint& checkpoint, ClassifyDefaults& defaults,
                                  EncodingDefaults& encoding);

}  // namespace beamline
