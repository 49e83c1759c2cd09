// A classifier's classes, from config.json and from sentence-transformers' files of a
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

// The labels of id2label, whose ids must be 0, 1, ... Without id2label: "LABEL_0", ..., for
// num_labels or, as in transformers, two classes. Faults are reported in `config`, which reads
// `json`.
std::vector<std::string> ReadLabels(const nlohmann::json& json, ConfigFields& config);

// Reads labels and functions. A folder with modules.json may also set the longest input and
// lowercasing in `encoding`. Errors name the file and the field.
absl::Status ReadClassifyDefaults(const Checkpoint& checkpoint, ClassifyDefaults& defaults,
                                  EncodingDefaults& encoding);

}  // namespace beamline
