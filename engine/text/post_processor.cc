#include "engine/text/post_processor.h"

#include <algorithm>
#include <string>
#include <string_view>

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

// The member [token, id].
absl::StatusOr<int32_t> ReadTokenPair(const JsonNode& node, const char* key, int32_t vocab_size) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode pair, node.Array(key));
  const nlohmann::json& json = pair.value();
  const auto id = json.size() == 2 ? WholeNumber(json[1], 0, vocab_size - 1) : std::nullopt;
  if (id.has_value()) return static_cast<int32_t>(*id);
  return pair.Error(
      fmt::format("is {}, expected [token, id] with an id below {}", json.dump(), vocab_size));
}

// Puts the ids of the template's special token `name` behind *ids.
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

// The type that the model is told for a piece of the template.
absl::Status CheckType(const JsonNode& piece) {
  BEAMLINE_ASSIGN_OR_RETURN(const int64_t type, piece.IntOr("type_id", 0, 0, INT32_MAX));
  if (type == 0) return absl::OkStatus();
  return piece.Error(fmt::format("\"type_id\" is {}; only 0 is supported in \"single\"", type));
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
  return made;
}

// {cls} text {sep}
absl::StatusOr<PostProcessor> MakeClsSep(const JsonNode& node, int32_t vocab_size) {
  PostProcessor made;
  BEAMLINE_ASSIGN_OR_RETURN(const int32_t cls, ReadTokenPair(node, "cls", vocab_size));
  BEAMLINE_ASSIGN_OR_RETURN(const int32_t sep, ReadTokenPair(node, "sep", vocab_size));
  made.prefix.push_back(cls);
  made.suffix.push_back(sep);
  return made;
}

absl::Status ReadTrimming(const JsonNode& node, PostProcessor* made) {
  OffsetTrimming trimming;
  BEAMLINE_ASSIGN_OR_RETURN(trimming.add_prefix_space, node.BoolOr("add_prefix_space", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool trim, node.BoolOr("trim_offsets", true));
  if (trim) made->trimmings.push_back(trimming);
  return absl::OkStatus();
}

absl::StatusOr<PostProcessor> MakeSequence(const JsonNode& node, int32_t vocab_size) {
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode list, node.Array("processors"));
  PostProcessor made;
  for (size_t i = 0; i < list.value().size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode element, list.Element(i));
    BEAMLINE_ASSIGN_OR_RETURN(const PostProcessor step, MakePostProcessor(element, vocab_size));
    made.prefix.insert(made.prefix.begin(), step.prefix.begin(), step.prefix.end());
    made.suffix.insert(made.suffix.end(), step.suffix.begin(), step.suffix.end());
    made.trimmings.insert(made.trimmings.end(), step.trimmings.begin(), step.trimmings.end());
  }
  return made;
}

}  // namespace

absl::StatusOr<PostProcessor> MakePostProcessor(const JsonNode& node, int32_t vocab_size) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string type, node.Type());
  if (type == "TemplateProcessing") return MakeTemplate(node, vocab_size);
  if (type == "BertProcessing") return MakeClsSep(node, vocab_size);
  if (type == "RobertaProcessing") {
    BEAMLINE_ASSIGN_OR_RETURN(PostProcessor made, MakeClsSep(node, vocab_size));
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
  // A token that ends before as many characters of the text keeps its spaces.
  if (*end < 4 * spaces.trailing && NumChars(text.substr(0, *end)) < spaces.trailing) return;
  for (int32_t i = 0; i < spaces.trailing && *begin < *end; ++i) {
    do {
      --*end;
    } while (IsContinuationByte(text[static_cast<size_t>(*end)]));
  }
}

}  // namespace beamline::text
