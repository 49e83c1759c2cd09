// The unigram language model of SentencePiece: the most probable way to cut a text into pieces.
#pragma once

#include <memory>

#include "engine/text/token_model.h"

namespace beamline::text {

absl::StatusOr<std::unique_ptr<TokenModel>> UnigramFromJson(const JsonNode& node);

}  // namespace beamline::text
