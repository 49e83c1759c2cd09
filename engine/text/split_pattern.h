// Splits a piece of text at delimiters.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/text/component_json.h"
#include "engine/text/regex.h"
#include "engine/text/split_text.h"

namespace beamline::text {

// What happens to a delimiter. With "-" in "the-final--countdown":
enum class SplitBehavior : uint8_t {
  kRemoved,             // the | final | countdown
  kIsolated,            // the | - | final | - | - | countdown
  kMergedWithPrevious,  // the- | final- | - | countdown
  kMergedWithNext,      // the | -final | - | -countdown
  kContiguous,          // the | - | final | -- | countdown
};

absl::StatusOr<SplitBehavior> ReadSplitBehavior(const JsonNode& node, const char* key,
                                                SplitBehavior otherwise);

// The member "pattern": {"Regex": "..."} or {"String": "..."}.
absl::StatusOr<Regex> ReadPattern(const JsonNode& node);

// Appends the parts of `piece` to *out, without empty ones. Positions of delimiters are relative to
// the piece. With `invert`, the delimiters are kept, and the text between them delimits.
void CutAtDelimiters(const Piece& piece, const std::vector<RegexMatch>& delimiters,
                     SplitBehavior behavior, bool invert, std::vector<Piece>* out);

// Each character for which is_delimiter(char32_t) is true is one delimiter.
template <typename Predicate>
void FindDelimiters(std::string_view text, Predicate is_delimiter,
                    std::vector<RegexMatch>* delimiters) {
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    if (is_delimiter(ReadChar(text, &position))) delimiters->push_back({begin, position});
  }
}

}  // namespace beamline::text
