// The unigram language model of SentencePiece: finds the most probable segmentation of a text.
#pragma once

#include <memory>

#include "engine/text/token_model.h"

namespace beamline::text {

absl::StatusOr<std::unique_ptr<TokenModel>> UnigramFromJson(const JsonNode& node);

}  // namespace beamline::text
