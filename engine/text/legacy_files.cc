#include "engine/text/legacy_files.h"

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/utf8.h"
#include "engine/checkpoint/json_file.h"
#include "engine/text/component_json.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

using nlohmann::json;

// The lines of a text file, without their ends; no empty line behind the last one.
absl::StatusOr<std::vector<std::string>> ReadLines(const std::string& path) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(path, kMaxTokenizerFileBytes));
  if (content.empty()) return absl::InvalidArgumentError(fmt::format("{}: empty", path));
  if (const auto bad = FindInvalidUtf8(content)) {
    return absl::InvalidArgumentError(fmt::format("{}: not valid UTF-8 at byte {}", path, *bad));
  }
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const bool carriage_return = end > begin && content[end - 1] == '\r';
    lines.push_back(content.substr(begin, end - begin - (carriage_return ? 1 : 0)));
    begin = end + 1;
  }
  return lines;
}

// A special token that the vocabulary must have.
absl::StatusOr<json> SpecialToken(const json& vocab, const std::string& content,
                                  const std::string& place) {
  if (!vocab.contains(content)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the special token \"{}\" is missing", place, content));
  }
  return json{
      {"id", vocab[content]}, {"content", content}, {"special", true}, {"normalized", false}};
}

absl::StatusOr<json> SpecialTokens(const json& vocab, std::initializer_list<std::string> contents,
                                   const std::string& place) {
  json tokens = json::array();
  for (const std::string& content : contents) {
    BEAMLINE_ASSIGN_OR_RETURN(tokens.emplace_back(), SpecialToken(vocab, content, place));
  }
  return tokens;
}

json ClsSepTemplate(const json& vocab, const std::string& cls, const std::string& sep) {
  return {{"type", "BertProcessing"}, {"cls", {cls, vocab[cls]}}, {"sep", {sep, vocab[sep]}}};
}

}  // namespace

absl::StatusOr<json> ReadBertFiles(const std::string& folder, const TokenizerConfig& config) {
  const std::string path = folder + "/vocab.txt";
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(path));
  json vocab = json::object();
  for (size_t id = 0; id < lines.size(); ++id) vocab[lines[id]] = id;

  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool lowercase, settings.BoolOr("do_lower_case", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool strip_accents, settings.BoolOr("strip_accents", lowercase));
  BEAMLINE_ASSIGN_OR_RETURN(const bool chinese, settings.BoolOr("tokenize_chinese_chars", true));
  const std::string unk = config.Role("unk_token", "[UNK]");
  const std::string cls = config.Role("cls_token", "[CLS]");
  const std::string sep = config.Role("sep_token", "[SEP]");
  BEAMLINE_ASSIGN_OR_RETURN(json added_tokens,
                            SpecialTokens(vocab,
                                          {unk, cls, sep, config.Role("pad_token", "[PAD]"),
                                           config.Role("mask_token", "[MASK]")},
                                          path));
  json post_processor = ClsSepTemplate(vocab, cls, sep);
  return json{{"added_tokens", std::move(added_tokens)},
              {"normalizer",
               {{"type", "BertNormalizer"},
                {"clean_text", true},
                {"handle_chinese_chars", chinese},
                {"strip_accents", strip_accents},
                {"lowercase", lowercase}}},
              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
              {"post_processor", std::move(post_processor)},
              {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
              {"model", {{"type", "WordPiece"}, {"unk_token", unk}, {"vocab", std::move(vocab)}}}};
}

absl::StatusOr<json> ReadGpt2Files(const std::string& folder, const TokenizerConfig& config) {
  const std::string vocab_path = folder + "/vocab.json", merges_path = folder + "/merges.txt";
  BEAMLINE_ASSIGN_OR_RETURN(json vocab, ReadJsonObject(vocab_path, kMaxTokenizerFileBytes));
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(merges_path));
  json merges = json::array();
  for (const std::string& line : lines) {
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool prefix_space, settings.BoolOr("add_prefix_space", false));
  const std::string family = config.Role("tokenizer_class", "");

  json made = {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}}},
               {"decoder", {{"type", "ByteLevel"}}},
               {"model", {{"type", "BPE"}, {"merges", std::move(merges)}}}};
  if (family.starts_with("Roberta") || family.starts_with("Bart")) {
    const std::string cls = config.Role("cls_token", "<s>"), sep = config.Role("sep_token", "</s>");
    BEAMLINE_ASSIGN_OR_RETURN(
        json added_tokens,
        SpecialTokens(vocab,
                      {cls, sep, config.Role("unk_token", "<unk>"),
                       config.Role("pad_token", "<pad>"), config.Role("mask_token", "<mask>")},
                      vocab_path));
    added_tokens.back()["lstrip"] = true;  // the mask stands for a word with its space
    made["added_tokens"] = std::move(added_tokens);
    made["post_processor"] = ClsSepTemplate(vocab, cls, sep);
    made["post_processor"]["type"] = "RobertaProcessing";
    made["post_processor"]["add_prefix_space"] = prefix_space;
  } else {
    BEAMLINE_ASSIGN_OR_RETURN(
        made["added_tokens"],
        SpecialTokens(vocab, {config.Role("eos_token", "<|endoftext|>")}, vocab_path));
  }
  made["model"]["vocab"] = std::move(vocab);
  return made;
}

}  // namespace beamline::text
