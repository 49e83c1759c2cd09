// What transformers' tokenizer classes read, and what they give to their models.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// Files of a folder without a tokenizer.json.
enum class ClassFiles : uint8_t { kWords, kMerges, kMarian };

// UNIMPLEMENTED, with the class's name, unless the class (TokenizerClassName) makes of `files` what
// Beamline makes of them: other classes have the same names for files that they read in another
// way.
absl::Status CheckClassReads(ClassFiles files, const CheckpointPath& folder,
                             const TokenizerConfig& config, const nlohmann::json& model_config);

// Whether the model is told which of two texts a token belongs to: model_input_names of
// tokenizer_config.json, else the class's.
bool GivesTypes(const TokenizerConfig& config, const nlohmann::json& model_config);

}  // namespace beamline::text
