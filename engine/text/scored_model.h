// A SentencePiece model alone, of models whose tokenizers have no class of their own.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// tokenizer.model of Mistral, Phi 3 and others that have no class of their own, a SentencePiece
// model of type BPE: as transformers 5 builds it of the model's own settings, with merges in the
// order of the pieces' scores. `config` gets what the model says in its place: the tokens of roles,
// and that added tokens are found before the text is normalized.
absl::StatusOr<nlohmann::json> ReadScoredModel(const CheckpointPath& path, TokenizerConfig& config);

}  // namespace beamline::text
