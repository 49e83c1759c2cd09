// The "decoder" of a tokenizer.json: turns token spellings back into text.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/text/component_json.h"
#include "engine/text/decode_stage.h"

namespace beamline::text {

// Appends the component's stages to *chain.
absl::Status AddDecoder(const JsonNode& node, DecodeChain* chain);

// The default without a decoder: joins tokens by spaces.
std::unique_ptr<DecodeStage> MakeJoinStage();
// Joins all tokens into one.
std::unique_ptr<DecodeStage> MakeFuseStage();
// Removes white space at both ends of each token, like Python's str.strip.
std::unique_ptr<DecodeStage> MakeStripWhitespaceStage();
std::unique_ptr<DecodeStage> MakeByteLevelStage();
std::unique_ptr<DecodeStage> MakeWordPieceStage(std::string prefix, bool cleanup);

}  // namespace beamline::text
