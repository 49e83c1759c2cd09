// Which files transformers' tokenizer classes read, and which inputs they give to their models.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// Files in a folder without tokenizer.json.
enum class ClassFiles : uint8_t { kWords, kMerges, kMarian };

// UNIMPLEMENTED with the class's name, unless the class (TokenizerClassName) interprets `files` as
// Beamline does. Other classes use the same file names with different contents.
absl::Status CheckClassReads(ClassFiles files, const CheckpointPath& folder,
                             const TokenizerConfig& config, const nlohmann::json& model_config);

// Whether the model gets token type ids, from model_input_names in tokenizer_config.json, else from
// the class.
bool GivesTypes(const TokenizerConfig& config, const nlohmann::json& model_config);

}  // namespace beamline::text
