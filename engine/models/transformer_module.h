// Reads sentence_bert_config.json, the settings of sentence-transformers' Transformer module.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"

namespace beamline {

// The JSON object in `file` of the folder; empty if there is no such file.
absl::StatusOr<nlohmann::json> ReadOptionalObject(const Checkpoint& checkpoint,
                                                  std::string_view file);

// The task of the module, with the names that the file uses.
struct ModuleTask {
  const char* name;
  const char* output;        // of the module
  const char* model_output;  // of the model within it
};
inline constexpr ModuleTask kFeatureExtraction = {"feature-extraction", "token_embeddings",
                                                  "last_hidden_state"};
inline constexpr ModuleTask kSequenceClassification = {"sequence-classification", "scores",
                                                       "logits"};

// Reads the longest input and lowercasing. Settings that change the module's output in another way
// are errors.
absl::Status ReadTransformerModule(const Checkpoint& checkpoint, const ModuleTask& task,
                                   EncodingDefaults& defaults);

}  // namespace beamline
