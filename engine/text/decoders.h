// The "decoder" of a tokenizer.json: from token spellings back to text.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/text/component_json.h"
#include "engine/text/decode_stage.h"

namespace beamline::text {

// Appends the component's stages to *chain.
absl::Status AddDecoder(const JsonNode& node, DecodeChain* chain);

// Without a decoder the tokens are joined by spaces.
std::unique_ptr<DecodeStage> MakeJoinStage();
// All tokens become one.
std::unique_ptr<DecodeStage> MakeFuseStage();
// Removes white space from both ends of each token, as Python's str.strip.
std::unique_ptr<DecodeStage> MakeStripWhitespaceStage();
std::unique_ptr<DecodeStage> MakeByteLevelStage();
std::unique_ptr<DecodeStage> MakeWordPieceStage(std::string prefix, bool cleanup);

}  // namespace beamline::text
