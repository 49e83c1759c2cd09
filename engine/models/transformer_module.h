// The settings of sentence-transformers' Transformer module: sentence_bert_config.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"

namespace beamline {

// The object in `file` of the folder; empty when there is no such file.
absl::StatusOr<nlohmann::json> ReadOptionalObject(const Checkpoint& checkpoint,
                                                  std::string_view file);

// What the module is to compute, by the file's names for it.
struct ModuleTask {
  const char* name;
  const char* output;        // of the module
  const char* model_output;  // of the model within it
};
inline constexpr ModuleTask kFeatureExtraction = {"feature-extraction", "token_embeddings",
                                                  "last_hidden_state"};
inline constexpr ModuleTask kSequenceClassification = {"sequence-classification", "scores",
                                                       "logits"};

// The longest input, and whether texts are lowercased. Settings that change what the module
// computes in another way are errors.
absl::Status ReadTransformerModule(const Checkpoint& checkpoint, const ModuleTask& task,
                                   EncodingDefaults& defaults);

}  // namespace beamline
