// The "post_processor" of a tokenizer.json: the template around a text, and the trimming of
// offsets.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/component_json.h"

namespace beamline::text {

// How byte-level tokens give up the spaces at their ends; see TrimSpaces.
struct OffsetTrimming {
  bool add_prefix_space = true;
};

// What stands at a place of two texts that are one input: a token of the template, or a text.
struct PairPiece {
  enum class Kind : uint8_t { kToken, kFirst, kSecond };
  Kind kind = Kind::kToken;
  int32_t id = 0;    // of kToken
  int32_t type = 0;  // that the model is told for it
};

struct PostProcessor {
  std::vector<int32_t> prefix;  // ids before the text
  std::vector<int32_t> suffix;  // ids behind it
  // Of two texts, each of which it has once: without a template one behind the other. Empty where
  // the file has one that is not understood: who needs it says so.
  std::vector<PairPiece> pair = {{PairPiece::Kind::kFirst, 0, 0}, {PairPiece::Kind::kSecond, 0, 1}};
  std::vector<OffsetTrimming> trimmings;
};

// INVALID_ARGUMENT for types it does not know, templates without exactly one text, and ids at or
// above vocab_size.
absl::StatusOr<PostProcessor> MakePostProcessor(const JsonNode& node, int32_t vocab_size);

// The number of spaces at each end of a token's spelling.
struct TokenSpaces {
  int32_t leading = 0;
  int32_t trailing = 0;
};
TokenSpaces CountSpaces(std::string_view spelling);

// Moves begin and end of a token's range of `text` inwards by a character for each space. A single
// leading space of the first token is kept with add_prefix_space: it was not in the text.
void TrimSpaces(const OffsetTrimming& trimming, const TokenSpaces& spaces, bool first,
                std::string_view text, int32_t* begin, int32_t* end);

}  // namespace beamline::text
