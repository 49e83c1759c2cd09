#include "engine/text/split_pattern.h"

#include <algorithm>
#include <string>

#include "base/status.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

struct Span {
  size_t begin;
  size_t end;
  bool delimiter;
};

std::vector<Span> Spans(size_t size, const std::vector<RegexMatch>& delimiters, bool invert) {
  std::vector<Span> spans;
  spans.reserve(2 * delimiters.size() + 1);
  size_t covered = 0;
  for (const RegexMatch& match : delimiters) {
    if (match.begin > covered) spans.push_back({covered, match.begin, invert});
    spans.push_back({match.begin, match.end, !invert});
    covered = match.end;
  }
  if (covered < size) spans.push_back({covered, size, invert});
  return spans;
}

// Joins the first delimiter of each run to the preceding span.
std::vector<Span> MergeDelimiters(const std::vector<Span>& spans) {
  std::vector<Span> merged;
  bool after_delimiter = false;
  for (const Span& span : spans) {
    if (span.delimiter && !after_delimiter && !merged.empty()) {
      merged.back().begin = std::min(merged.back().begin, span.begin);
      merged.back().end = std::max(merged.back().end, span.end);
    } else {
      merged.push_back(span);
    }
    after_delimiter = span.delimiter;
  }
  return merged;
}

std::vector<Span> MergeRuns(const std::vector<Span>& spans) {
  std::vector<Span> merged;
  for (const Span& span : spans) {
    if (!merged.empty() && merged.back().delimiter == span.delimiter) {
      merged.back().end = span.end;
    } else {
      merged.push_back(span);
    }
  }
  return merged;
}

}  // namespace

absl::StatusOr<SplitBehavior> ReadSplitBehavior(const JsonNode& node, const char* key,
                                                SplitBehavior otherwise) {
  if (!node.Has(key)) return otherwise;
  BEAMLINE_ASSIGN_OR_RETURN(const std::string name, node.String(key));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return node.Error(fmt::format(
      "\"{}\" is \"{}\", expected Removed, Isolated, MergedWithPrevious, MergedWithNext or "
      "Contiguous",
      key, name));
}

absl::StatusOr<Regex> ReadPattern(const JsonNode& node) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode pattern, node.Object("pattern"));
  const bool literal = pattern.Has("String");
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text, pattern.String(literal ? "String" : "Regex"));
  absl::StatusOr<Regex> regex = literal ? Regex::CompileLiteral(text) : Regex::Compile(text);
  if (!regex.ok()) return pattern.Error(std::string(regex.status().message()));
  return regex;
}

void CutAtDelimiters(const Piece& piece, const std::vector<RegexMatch>& delimiters,
                     SplitBehavior behavior, bool invert, std::vector<Piece>* out) {
  const auto size = static_cast<size_t>(piece.end - piece.begin);
  const auto emit = [&](size_t begin, size_t end) {
    if (begin == end) return;
    out->push_back({piece.begin + static_cast<int32_t>(begin),
                    piece.begin + static_cast<int32_t>(end), Piece::kNoToken});
  };
  if (behavior == SplitBehavior::kIsolated) {  // the common case; `invert` makes no difference
    size_t covered = 0;
    for (const RegexMatch& match : delimiters) {
      emit(covered, match.begin);
      emit(match.begin, match.end);
      covered = match.end;
    }
    emit(covered, size);
    return;
  }
  std::vector<Span> spans = Spans(size, delimiters, invert);
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::erase_if(spans, [](const Span& span) { return span.delimiter; });
      break;
    case SplitBehavior::kMergedWithPrevious:
      spans = MergeDelimiters(spans);
      break;
    case SplitBehavior::kMergedWithNext:
      std::reverse(spans.begin(), spans.end());
      spans = MergeDelimiters(spans);
      std::reverse(spans.begin(), spans.end());
      break;
    case SplitBehavior::kContiguous:
      spans = MergeRuns(spans);
      break;
    case SplitBehavior::kIsolated:
      break;
  }
  for (const Span& span : spans) emit(span.begin, span.end);
}

}  // namespace beamline::text
