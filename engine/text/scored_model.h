// Reads a SentencePiece model of a tokenizer that has no class of its own.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// Reads tokenizer.model of Mistral, Phi 3 and others without a tokenizer class, a SentencePiece
// model of type BPE. As in transformers 5, the tokenizer follows the model's own settings and
// merges in the order of the pieces' scores. Updates `config` with the model's role tokens, and so
// that added tokens are found before normalization.
absl::StatusOr<nlohmann::json> ReadScoredModel(const CheckpointPath& path, TokenizerConfig& config);

}  // namespace beamline::text
