#include "engine/text/pre_tokenizers.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/text/normalizers.h"
#include "engine/text/regex.h"
#include "engine/text/split_pattern.h"
#include "engine/text/unicode.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

// The pattern of OpenAI's GPT-2 (encoder.py).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class SequencePreTokenizer : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<PreTokenizer>> steps)
      : steps_(std::move(steps)) {}
  absl::Status Split(SplitText* text) const override {
    for (const auto& step : steps_) {
      BEAMLINE_RETURN_IF_ERROR(step->Split(text));
      BEAMLINE_RETURN_IF_ERROR(text->work().status());
    }
    return absl::OkStatus();
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

class RegexPreTokenizer : public PreTokenizer {
 public:
  RegexPreTokenizer(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  absl::Status Split(SplitText* text) const override {
    absl::Status status;
    std::vector<RegexMatch> matches;
    text->CutPieces([&](const Piece& piece, std::vector<Piece>* out) {
      matches.clear();
      if (status.ok()) status = pattern_.FindAll(text->PieceText(piece), &matches, &text->work());
      CutAtDelimiters(piece, matches, behavior_, invert_, out);
    });
    return status;
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(std::unique_ptr<PreTokenizer> words, bool add_prefix_space, bool spell)
      : words_(std::move(words)), add_prefix_space_(add_prefix_space), spell_(spell) {}

  absl::Status Split(SplitText* text) const override {
    if (add_prefix_space_) {
      text->RewritePieces([](AlignedText* piece) {
        if (!piece->text().starts_with(' ')) Prepend(" ", piece);
      });
    }
    if (words_ != nullptr) BEAMLINE_RETURN_IF_ERROR(words_->Split(text));
    if (spell_) text->RewritePieces(SpellBytes);
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<PreTokenizer> words_;  // null: the pieces are not split further
  bool add_prefix_space_;
  bool spell_;
};

enum class PrependScheme : uint8_t { kAlways, kFirst, kNever };

class MetaspacePreTokenizer : public PreTokenizer {
 public:
  MetaspacePreTokenizer(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  absl::Status Split(SplitText* text) const override {
    text->RewritePieces([&](AlignedText* piece) {
      piece->RewriteChars([&](char32_t c, ByteRange source, AlignedWriter* writer) {
        if (c == U' ') {
          writer->Append(replacement_, source);
        } else {
          writer->Append(c, source);
        }
      });
      const bool prepend = scheme_ == PrependScheme::kAlways ||
                           (scheme_ == PrependScheme::kFirst && piece->Source(0, 1).begin == 0);
      if (prepend && !piece->text().starts_with(replacement_)) Prepend(replacement_, piece);
    });
    if (!split_) return absl::OkStatus();
    text->CutPieces([&](const Piece& piece, std::vector<Piece>* out) {
      const std::string_view view = text->PieceText(piece);
      size_t begin = 0;
      while (begin < view.size()) {
        const size_t end = std::min(view.find(replacement_, begin + 1), view.size());
        out->push_back({piece.begin + static_cast<int32_t>(begin),
                        piece.begin + static_cast<int32_t>(end), Piece::kNoToken});
        begin = end;
      }
    });
    return absl::OkStatus();
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

// Splits at single characters of a class.
template <typename Predicate>
class CharPreTokenizer : public PreTokenizer {
 public:
  CharPreTokenizer(Predicate is_delimiter, SplitBehavior behavior)
      : is_delimiter_(is_delimiter), behavior_(behavior) {}

  absl::Status Split(SplitText* text) const override {
    std::vector<RegexMatch> delimiters;
    text->CutPieces([&](const Piece& piece, std::vector<Piece>* out) {
      delimiters.clear();
      FindDelimiters(text->PieceText(piece), is_delimiter_, &delimiters);
      CutAtDelimiters(piece, delimiters, behavior_, /*invert=*/false, out);
    });
    return absl::OkStatus();
  }

 private:
  Predicate is_delimiter_;
  SplitBehavior behavior_;
};

template <typename Predicate>
std::unique_ptr<PreTokenizer> CutAtChars(Predicate is_delimiter, SplitBehavior behavior) {
  return std::make_unique<CharPreTokenizer<Predicate>>(is_delimiter, behavior);
}

// \w+|[^\w\s]+ : runs of word characters and runs of other characters, without white space.
class WhitespacePreTokenizer : public PreTokenizer {
 public:
  absl::Status Split(SplitText* text) const override {
    text->CutPieces([&](const Piece& piece, std::vector<Piece>* out) {
      const std::string_view view = text->PieceText(piece);
      int run_class = kSpace;
      int32_t run_begin = 0;
      const auto end_run = [&](int32_t end) {
        if (run_class != kSpace) {
          out->push_back({piece.begin + run_begin, piece.begin + end, Piece::kNoToken});
        }
      };
      for (size_t position = 0; position < view.size();) {
        const auto begin = static_cast<int32_t>(position);
        const char32_t c = ReadChar(view, &position);
        const int char_class = IsWordChar(c) ? kWord : IsWhitespace(c) ? kSpace : kOther;
        if (char_class == run_class) continue;
        end_run(begin);
        run_class = char_class;
        run_begin = begin;
      }
      end_run(static_cast<int32_t>(view.size()));
    });
    return absl::OkStatus();
  }

 private:
  enum : int { kSpace, kWord, kOther };
};

absl::StatusOr<std::unique_ptr<PreTokenizer>> MakeMetaspace(const JsonNode& node) {
  BEAMLINE_ASSIGN_OR_RETURN(std::string replacement, node.Character("replacement"));
  BEAMLINE_ASSIGN_OR_RETURN(const bool split, node.BoolOr("split", true));
  // Files from before prepend_scheme have add_prefix_space.
  BEAMLINE_ASSIGN_OR_RETURN(const bool add_prefix_space, node.BoolOr("add_prefix_space", true));
  BEAMLINE_ASSIGN_OR_RETURN(const std::string scheme,
                            node.StringOr("prepend_scheme", add_prefix_space ? "always" : "never"));
  PrependScheme prepend;
  if (scheme == "always") {
    prepend = PrependScheme::kAlways;
  } else if (scheme == "first") {
    prepend = PrependScheme::kFirst;
  } else if (scheme == "never") {
    prepend = PrependScheme::kNever;
  } else {
    return node.Error(
        fmt::format("\"prepend_scheme\" is \"{}\", expected always, first or never", scheme));
  }
  return std::make_unique<MetaspacePreTokenizer>(std::move(replacement), prepend, split);
}

absl::StatusOr<PreTokenizerAndMode> MakeByteLevel(const JsonNode& node, bool raw_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(const bool add_prefix_space, node.BoolOr("add_prefix_space", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool use_regex, node.BoolOr("use_regex", true));
  std::unique_ptr<PreTokenizer> words;
  if (use_regex) {
    BEAMLINE_ASSIGN_OR_RETURN(Regex pattern, Regex::Compile(kGpt2Pattern));
    words = std::make_unique<RegexPreTokenizer>(std::move(pattern), SplitBehavior::kIsolated,
                                                /*invert=*/false);
  }
  return PreTokenizerAndMode{
      std::make_unique<ByteLevelPreTokenizer>(std::move(words), add_prefix_space, !raw_bytes),
      raw_bytes};
}

absl::StatusOr<PreTokenizerAndMode> MakeSequence(const JsonNode& node, bool allow_raw_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode list, node.Array("pretokenizers"));
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  bool raw_bytes = false;
  for (size_t i = 0; i < list.value().size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode element, list.Element(i));
    const bool last = i + 1 == list.value().size();
    BEAMLINE_ASSIGN_OR_RETURN(PreTokenizerAndMode step,
                              MakePreTokenizer(element, allow_raw_bytes && last));
    steps.push_back(std::move(step.pre_tokenizer));
    raw_bytes = step.raw_bytes;
  }
  return PreTokenizerAndMode{std::make_unique<SequencePreTokenizer>(std::move(steps)), raw_bytes};
}

// All types except the two that handle raw bytes.
absl::StatusOr<std::unique_ptr<PreTokenizer>> MakePlain(const JsonNode& node,
                                                        std::string_view type) {
  if (type == "Split") {
    BEAMLINE_ASSIGN_OR_RETURN(Regex pattern, ReadPattern(node));
    BEAMLINE_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                              ReadSplitBehavior(node, "behavior", SplitBehavior::kIsolated));
    BEAMLINE_ASSIGN_OR_RETURN(const bool invert, node.BoolOr("invert", false));
    return std::make_unique<RegexPreTokenizer>(std::move(pattern), behavior, invert);
  }
  if (type == "Metaspace") return MakeMetaspace(node);
  if (type == "Whitespace") return std::make_unique<WhitespacePreTokenizer>();
  if (type == "WhitespaceSplit") return CutAtChars(IsWhitespace, SplitBehavior::kRemoved);
  if (type == "BertPreTokenizer") {
    std::vector<std::unique_ptr<PreTokenizer>> steps;
    steps.push_back(CutAtChars(IsWhitespace, SplitBehavior::kRemoved));
    steps.push_back(CutAtChars(IsPunctuation, SplitBehavior::kIsolated));
    return std::make_unique<SequencePreTokenizer>(std::move(steps));
  }
  if (type == "Punctuation") {
    BEAMLINE_ASSIGN_OR_RETURN(const SplitBehavior behavior,
                              ReadSplitBehavior(node, "behavior", SplitBehavior::kIsolated));
    return CutAtChars(IsPunctuation, behavior);
  }
  if (type == "Digits") {
    BEAMLINE_ASSIGN_OR_RETURN(const bool individual, node.BoolOr("individual_digits", false));
    return CutAtChars(IsNumeric,
                      individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "CharDelimiterSplit") {
    BEAMLINE_ASSIGN_OR_RETURN(const std::string delimiter, node.Character("delimiter"));
    size_t position = 0;
    const char32_t character = ReadChar(delimiter, &position);
    return CutAtChars([character](char32_t c) { return c == character; }, SplitBehavior::kRemoved);
  }
  return node.UnknownType("pre_tokenizer", type);
}

}  // namespace

absl::StatusOr<PreTokenizerAndMode> MakePreTokenizer(const JsonNode& node, bool allow_raw_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string type, node.Type());
  if (type == "Sequence") return MakeSequence(node, allow_raw_bytes);
  if (type == "ByteLevel") return MakeByteLevel(node, allow_raw_bytes);
  PreTokenizerAndMode made;
  BEAMLINE_ASSIGN_OR_RETURN(made.pre_tokenizer, MakePlain(node, type));
  return made;
}

}  // namespace beamline::text
