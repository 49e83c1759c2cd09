// The "post_processor" of a tokenizer.json: the template around a text, and the trimming of
// offsets.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/component_json.h"

namespace beamline::text {

// How the offsets of byte-level tokens exclude spaces at their ends; see TrimSpaces.
struct OffsetTrimming {
  bool add_prefix_space = true;
};

// One element of the template for a text pair: a token of the template, or one of the texts.
struct PairPiece {
  enum class Kind : uint8_t { kToken, kFirst, kSecond };
  Kind kind = Kind::kToken;
  int32_t id = 0;    // of kToken
  int32_t type = 0;  // type id that the model gets for it
};

struct PostProcessor {
  std::vector<int32_t> prefix;  // ids before the text
  std::vector<int32_t> suffix;  // ids after the text
  // Template for a text pair; it has each text once. Without a template the texts are concatenated.
  // Empty if the file's template is not supported; code that needs it reports the error.
  std::vector<PairPiece> pair = {{PairPiece::Kind::kFirst, 0, 0}, {PairPiece::Kind::kSecond, 0, 1}};
  std::vector<OffsetTrimming> trimmings;
};

// INVALID_ARGUMENT for unknown types, templates without exactly one text, and ids >= vocab_size.
absl::StatusOr<PostProcessor> MakePostProcessor(const JsonNode& node, int32_t vocab_size);

// The number of spaces at each end of a token's spelling.
struct TokenSpaces {
  int32_t leading = 0;
  int32_t trailing = 0;
};
TokenSpaces CountSpaces(std::string_view spelling);

// Moves begin and end of a token's range of `text` inwards by one character per space. With
// add_prefix_space, a single leading space of the first token is not trimmed: it was not in the
// text.
void TrimSpaces(const OffsetTrimming& trimming, const TokenSpaces& spaces, bool first,
                std::string_view text, int32_t* begin, int32_t* end);

}  // namespace beamline::text
