#include "engine/text/post_processor.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/utf8.h"
#include "engine/text/unicode.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

constexpr char32_t kSpelledSpace = 0x120;  // Ġ

int64_t NumChars(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuationByte(c); });
}

// Reads the member [token, id].
absl::StatusOr<int32_t> ReadTokenPair(const JsonNode& node, const char* key, int32_t vocab_size) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode pair, node.Array(key));
  const nlohmann::json& json = pair.value();
  const auto id = json.size() == 2 ? WholeNumber(json[1], 0, vocab_size - 1) : std::nullopt;
  if (id.has_value()) return static_cast<int32_t>(*id);
  return pair.Error(
      fmt::format("is {}, expected [token, id] with an id below {}", json.dump(), vocab_size));
}

// Appends the ids of the template's special token `name` to *ids.
absl::Status AppendSpecialToken(const JsonNode& node, const std::string& name, int32_t vocab_size,
                                std::vector<int32_t>* ids) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode specials, node.Object("special_tokens"));
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode special, specials.Object(name.c_str()));
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode list, special.Array("ids"));
  for (const nlohmann::json& id : list.value()) {
    const auto number = WholeNumber(id, 0, vocab_size - 1);
    if (!number.has_value()) {
      return list.Error(fmt::format("{} is not an id below {}", id.dump(), vocab_size));
    }
    ids->push_back(static_cast<int32_t>(*number));
  }
  return absl::OkStatus();
}

// Checks the type id of a piece in the template of one text.
absl::Status CheckType(const JsonNode& piece) {
  BEAMLINE_ASSIGN_OR_RETURN(const int64_t type, piece.IntOr("type_id", 0, 0, INT32_MAX));
  if (type == 0) return absl::OkStatus();
  return piece.Error(fmt::format("\"type_id\" is {}; only 0 is supported in \"single\"", type));
}

// Reads the template of two texts.
absl::StatusOr<std::vector<PairPiece>> MakePair(const JsonNode& node, int32_t vocab_size) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode list, node.Array("pair"));
  std::vector<PairPiece> made;
  int num_first = 0, num_second = 0;
  for (size_t i = 0; i < list.value().size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode piece, list.Element(i));
    const bool is_token = piece.Has("SpecialToken");
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode of,
                              piece.Object(is_token ? "SpecialToken" : "Sequence"));
    BEAMLINE_ASSIGN_OR_RETURN(const int64_t type, of.IntOr("type_id", 0, 0, INT32_MAX));
    BEAMLINE_ASSIGN_OR_RETURN(const std::string name, of.String("id"));
    PairPiece text = {.type = static_cast<int32_t>(type)};
    if (is_token) {
      std::vector<int32_t> ids;
      BEAMLINE_RETURN_IF_ERROR(AppendSpecialToken(node, name, vocab_size, &ids));
      for (const int32_t id : ids) {
        made.push_back({PairPiece::Kind::kToken, id, static_cast<int32_t>(type)});
      }
      continue;
    }
    text.kind = name == "A" ? PairPiece::Kind::kFirst : PairPiece::Kind::kSecond;
    ++(name == "A" ? num_first : num_second);
    made.push_back(text);
  }
  if (num_first == 1 && num_second == 1) return made;
  return list.Error("has not each of the texts once");
}

absl::StatusOr<PostProcessor> MakeTemplate(const JsonNode& node, int32_t vocab_size) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode single, node.Array("single"));
  PostProcessor made;
  int num_texts = 0;
  for (size_t i = 0; i < single.value().size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode piece, single.Element(i));
    if (piece.Has("SpecialToken")) {
      BEAMLINE_ASSIGN_OR_RETURN(const JsonNode special, piece.Object("SpecialToken"));
      BEAMLINE_RETURN_IF_ERROR(CheckType(special));
      BEAMLINE_ASSIGN_OR_RETURN(const std::string name, special.String("id"));
      BEAMLINE_RETURN_IF_ERROR(
          AppendSpecialToken(node, name, vocab_size, num_texts == 0 ? &made.prefix : &made.suffix));
    } else {
      BEAMLINE_ASSIGN_OR_RETURN(const JsonNode sequence, piece.Object("Sequence"));
      BEAMLINE_RETURN_IF_ERROR(CheckType(sequence));
      BEAMLINE_ASSIGN_OR_RETURN(const std::string name, sequence.String("id"));
      if (name != "A") return piece.Error(fmt::format("\"{}\" in the template of one text", name));
      ++num_texts;
    }
  }
  if (num_texts != 1) {
    return single.Error(fmt::format("has the text {} times, expected once", num_texts));
  }
  made.pair = MakePair(node, vocab_size).value_or(std::vector<PairPiece>());
  return made;
}

// One text: {cls} text {sep}. Two texts: {cls} first {sep} second {sep}; with `roberta` there are
// two {sep} between them, and the second text has type id 0.
absl::StatusOr<PostProcessor> MakeClsSep(const JsonNode& node, int32_t vocab_size, bool roberta) {
  PostProcessor made;
  BEAMLINE_ASSIGN_OR_RETURN(const int32_t cls, ReadTokenPair(node, "cls", vocab_size));
  BEAMLINE_ASSIGN_OR_RETURN(const int32_t sep, ReadTokenPair(node, "sep", vocab_size));
  made.prefix.push_back(cls);
  made.suffix.push_back(sep);
  using Kind = PairPiece::Kind;
  const int32_t second = roberta ? 0 : 1;
  made.pair = {{Kind::kToken, cls, 0}, {Kind::kFirst, 0, 0}, {Kind::kToken, sep, 0}};
  if (roberta) made.pair.push_back({Kind::kToken, sep, 0});
  made.pair.push_back({Kind::kSecond, 0, second});
  made.pair.push_back({Kind::kToken, sep, second});
  return made;
}

absl::Status ReadTrimming(const JsonNode& node, PostProcessor* made) {
  OffsetTrimming trimming;
  BEAMLINE_ASSIGN_OR_RETURN(trimming.add_prefix_space, node.BoolOr("add_prefix_space", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool trim, node.BoolOr("trim_offsets", true));
  if (trim) made->trimmings.push_back(trimming);
  return absl::OkStatus();
}

// Whether a step does more than trim offsets.
bool HasTemplate(const PostProcessor& step) {
  return step.pair.empty() || step.pair.size() > 2 || !step.prefix.empty() || !step.suffix.empty();
}

absl::StatusOr<PostProcessor> MakeSequence(const JsonNode& node, int32_t vocab_size) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode list, node.Array("processors"));
  PostProcessor made;
  int num_templates = 0;
  for (size_t i = 0; i < list.value().size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode element, list.Element(i));
    BEAMLINE_ASSIGN_OR_RETURN(const PostProcessor step, MakePostProcessor(element, vocab_size));
    made.prefix.insert(made.prefix.begin(), step.prefix.begin(), step.prefix.end());
    made.suffix.insert(made.suffix.end(), step.suffix.begin(), step.suffix.end());
    made.trimmings.insert(made.trimmings.end(), step.trimmings.begin(), step.trimmings.end());
    if (!HasTemplate(step)) continue;
    if (++num_templates > 1) made.pair.clear();  // nested templates
    if (num_templates == 1) made.pair = step.pair;
  }
  return made;
}

}  // namespace

absl::StatusOr<PostProcessor> MakePostProcessor(const JsonNode& node, int32_t vocab_size) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string type, node.Type());
  if (type == "TemplateProcessing") return MakeTemplate(node, vocab_size);
  if (type == "BertProcessing") return MakeClsSep(node, vocab_size, /*roberta=*/false);
  if (type == "RobertaProcessing") {
    BEAMLINE_ASSIGN_OR_RETURN(PostProcessor made, MakeClsSep(node, vocab_size, /*roberta=*/true));
    BEAMLINE_RETURN_IF_ERROR(ReadTrimming(node, &made));
    return made;
  }
  if (type == "ByteLevel") {
    PostProcessor made;
    BEAMLINE_RETURN_IF_ERROR(ReadTrimming(node, &made));
    return made;
  }
  if (type == "Sequence") return MakeSequence(node, vocab_size);
  return node.UnknownType("post_processor", type);
}

TokenSpaces CountSpaces(std::string_view spelling) {
  const auto is_space = [](char32_t c) { return c == kSpelledSpace || IsWhitespace(c); };
  TokenSpaces spaces;
  for (size_t position = 0; position < spelling.size(); ++spaces.leading) {
    if (!is_space(ReadChar(spelling, &position))) break;
  }
  for (size_t end = spelling.size(); end > 0; ++spaces.trailing) {
    if (!is_space(ReadCharBefore(spelling, end, &end))) break;
  }
  return spaces;
}

void TrimSpaces(const OffsetTrimming& trimming, const TokenSpaces& spaces, bool first,
                std::string_view text, int32_t* begin, int32_t* end) {
  const bool added = (first || *begin == 0) && trimming.add_prefix_space && spaces.leading == 1;
  for (int32_t i = added ? 1 : 0; i < spaces.leading && *begin < *end; ++i) {
    *begin += static_cast<int32_t>(CharLength(text[static_cast<size_t>(*begin)]));
  }
  // A token that ends within the first `trailing` characters of the text keeps its spaces.
  if (*end < 4 * spaces.trailing && NumChars(text.substr(0, *end)) < spaces.trailing) return;
  for (int32_t i = 0; i < spaces.trailing && *begin < *end; ++i) {
    do {
      --*end;
    } while (IsContinuationByte(text[static_cast<size_t>(*end)]));
  }
}

}  // namespace beamline::text
