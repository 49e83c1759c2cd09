#include "engine/text/legacy_files.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "base/status.h"
#include "base/utf8.h"
#include "engine/checkpoint/json_file.h"
#include "engine/text/component_json.h"
#include "engine/text/sentencepiece_file.h"
#include "engine/text/tokenizer_class.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

using nlohmann::json;

// The lines of a text file without line ends; no empty line at the end.
absl::StatusOr<std::vector<std::string>> ReadLines(const CheckpointPath& from) {
  const std::string& path = from.string();
  BEAMLINE_ASSIGN_OR_RETURN(const std::string content, ReadWholeFile(from, kMaxTokenizerFileBytes));
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

// A special token; an error if the vocabulary does not have it.
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

absl::StatusOr<json> ReadBertFiles(const CheckpointPath& folder, const TokenizerConfig& config,
                                   std::string_view class_name) {
  const CheckpointPath path = folder / "vocab.txt";
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(path));
  json vocab = json::object();
  for (size_t id = 0; id < lines.size(); ++id) vocab[lines[id]] = id;

  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool lowercase, settings.BoolOr("do_lower_case", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool strip_accents, settings.BoolOr("strip_accents", lowercase));
  BEAMLINE_ASSIGN_OR_RETURN(const bool chinese, settings.BoolOr("tokenize_chinese_chars", true));
  const std::string unk = config.Role("unk_token", "[UNK]");
  const bool is_mpnet = class_name == kMpNetTokenizer;
  const std::string cls = config.Role("cls_token", is_mpnet ? "<s>" : "[CLS]");
  const std::string sep = config.Role("sep_token", is_mpnet ? "</s>" : "[SEP]");
  BEAMLINE_ASSIGN_OR_RETURN(
      json added_tokens,
      SpecialTokens(vocab,
                    {unk, cls, sep, config.Role("pad_token", is_mpnet ? "<pad>" : "[PAD]"),
                     config.Role("mask_token", is_mpnet ? "<mask>" : "[MASK]")},
                    path.string()));
  // MPNet's mask replaces a word including its leading space.
  if (is_mpnet) added_tokens.back()["lstrip"] = true;
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

void TakeConfiguredFlags(const TokenizerConfig& config, json& tokenizer) {
  const auto found = tokenizer.find("added_tokens");
  if (found == tokenizer.end()) return;
  for (json& token : *found) {
    for (const auto& [role, value] : config.json.items()) {
      if (!role.ends_with("_token") || !value.is_object()) continue;
      if (value.value("content", json()) != token["content"]) continue;
      for (const char* flag : {"lstrip", "rstrip", "single_word", "normalized"}) {
        if (value.contains(flag)) token[flag] = value[flag];
      }
    }
    for (const AddedToken& listed : config.added_tokens) {
      if (token["content"] != listed.content) continue;
      token["lstrip"] = listed.lstrip;
      token["rstrip"] = listed.rstrip;
      token["single_word"] = listed.single_word;
      token["normalized"] = listed.normalized;
    }
  }
}

absl::StatusOr<json> ReadGpt2Files(const CheckpointPath& folder, const TokenizerConfig& config,
                                   std::string_view class_name) {
  BEAMLINE_ASSIGN_OR_RETURN(json vocab,
                            ReadJsonObject(folder / "vocab.json", kMaxTokenizerFileBytes));
  const std::string vocab_path = (folder / "vocab.json").string();
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, ReadLines(folder / "merges.txt"));
  json merges = json::array();
  for (const std::string& line : lines) {
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(line);
  }
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool prefix_space, settings.BoolOr("add_prefix_space", false));
  json made = {{"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}}},
               {"decoder", {{"type", "ByteLevel"}}},
               {"model", {{"type", "BPE"}, {"merges", std::move(merges)}}}};
  if (class_name == "DebertaTokenizer") {
    BEAMLINE_ASSIGN_OR_RETURN(
        json added_tokens,
        SpecialTokens(vocab,
                      {config.Role("cls_token", "[CLS]"), config.Role("sep_token", "[SEP]"),
                       config.Role("unk_token", "[UNK]"), config.Role("pad_token", "[PAD]"),
                       config.Role("mask_token", "[MASK]")},
                      vocab_path));
    made["added_tokens"] = std::move(added_tokens);
  } else if (class_name == "RobertaTokenizer" || class_name == "BartTokenizer") {
    const std::string cls = config.Role("cls_token", "<s>"), sep = config.Role("sep_token", "</s>");
    BEAMLINE_ASSIGN_OR_RETURN(
        json added_tokens,
        SpecialTokens(vocab,
                      {cls, sep, config.Role("unk_token", "<unk>"),
                       config.Role("pad_token", "<pad>"), config.Role("mask_token", "<mask>")},
                      vocab_path));
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

absl::StatusOr<json> ReadMergedModel(const CheckpointPath& path, const TokenizerConfig& config,
                                     std::span<const RoleToken> roles) {
  using File = SentencePieceFile;
  BEAMLINE_ASSIGN_OR_RETURN(const File file, ReadBpeFile(path));
  absl::flat_hash_set<std::string_view> known;
  for (const File::Piece& piece : file.pieces) known.insert(piece.text);
  json vocab = json::object(), merges = json::array(), added = json::array();
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const std::string_view text = file.pieces[id].text;
    vocab[std::string(text)] = id;
    for (size_t middle = 1; middle < text.size(); ++middle) {
      const std::string_view left = text.substr(0, middle), right = text.substr(middle);
      if (!known.contains(left) || !known.contains(right)) continue;
      merges.push_back(json::array({std::string(left), std::string(right)}));
    }
  }
  absl::flat_hash_set<std::string> of_roles;
  for (const auto& [role, otherwise] : roles) of_roles.insert(config.Role(role, otherwise));
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const File::Piece& piece = file.pieces[id];
    const bool special = piece.type == File::PieceType::kControl || of_roles.contains(piece.text);
    if (!special && piece.type != File::PieceType::kUserDefined) continue;
    added.push_back(
        {{"id", id}, {"content", piece.text}, {"special", special}, {"normalized", false}});
  }
  return json{
      {"added_tokens", std::move(added)},
      {"model", {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(merges)}}}};
}

namespace {

absl::StatusOr<SentencePieceFile> ReadUnigramFile(const CheckpointPath& path) {
  BEAMLINE_ASSIGN_OR_RETURN(SentencePieceFile file, ReadSentencePieceFile(path));
  if (file.model_type == SentencePieceFile::ModelType::kUnigram) return file;
  return absl::UnimplementedError(
      fmt::format("{}: SentencePiece model type {}; accepted: 1 (unigram)", path.string(),
                  static_cast<int>(file.model_type)));
}

json PrecompiledNormalizer(const SentencePieceFile& file) {
  if (file.character_map.empty()) return nullptr;
  return {{"type", "Precompiled"},
          {"precompiled_charsmap", absl::Base64Escape(file.character_map)}};
}

// The languages that transformers' classes append to the pieces, in this order; mBART-50's follow
// those of mBART.
constexpr std::string_view kMBartCodes =
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT "
    "lv_LV "
    "my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN";
constexpr std::string_view kMBart50Codes =
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL "
    "ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";

void AppendCodes(std::string_view codes, json& vocab) {
  while (!codes.empty()) {
    const std::string_view code = codes.substr(0, codes.find(' '));
    vocab.push_back(json::array({std::string(code), 0.0}));
    codes.remove_prefix(std::min(code.size() + 1, codes.size()));
  }
}

}  // namespace

absl::StatusOr<json> ReadMBartModel(const CheckpointPath& path, const TokenizerConfig& config,
                                    bool has_fifty) {
  BEAMLINE_ASSIGN_OR_RETURN(const SentencePieceFile file, ReadUnigramFile(path));
  constexpr size_t kOwnPieces = 3;  // unknown, begin and end, which have other ids here
  json vocab = json::array();
  for (const auto& [role, token] : {std::pair("bos_token", "<s>"),
                                    {"pad_token", "<pad>"},
                                    {"eos_token", "</s>"},
                                    {"unk_token", "<unk>"}}) {
    vocab.push_back(json::array({config.Role(role, token), 0.0}));
  }
  for (size_t id = kOwnPieces; id < file.pieces.size(); ++id) {
    vocab.push_back(json::array({file.pieces[id].text, file.pieces[id].score}));
  }
  AppendCodes(kMBartCodes, vocab);
  if (has_fifty) AppendCodes(kMBart50Codes, vocab);
  vocab.push_back(json::array({config.Role("mask_token", "<mask>"), 0.0}));
  return json{{"normalizer", PrecompiledNormalizer(file)},
              {"model", {{"type", "Unigram"}, {"unk_id", 3}, {"vocab", std::move(vocab)}}}};
}

absl::StatusOr<json> ReadT5Model(const CheckpointPath& path, const TokenizerConfig& config) {
  constexpr int64_t kMostExtraIds = 10000;
  BEAMLINE_ASSIGN_OR_RETURN(const SentencePieceFile file, ReadUnigramFile(path));
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const int64_t num_extra,
                            settings.IntOr("extra_ids", 100, 0, kMostExtraIds));
  json vocab = json::array(), added = json::array();
  const auto add = [&](const std::string& content, bool special) {
    added.push_back(
        {{"id", vocab.size()}, {"content", content}, {"special", special}, {"normalized", false}});
  };
  const std::string roles[] = {config.Role("unk_token", "<unk>"), config.Role("eos_token", "</s>"),
                               config.Role("pad_token", "<pad>")};
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    const bool special = piece.type == SentencePieceFile::PieceType::kControl ||
                         std::ranges::count(roles, piece.text) > 0;
    if (special || piece.type == SentencePieceFile::PieceType::kUserDefined) {
      add(piece.text, special);
    }
    vocab.push_back(json::array({piece.text, piece.score}));
  }
  for (int64_t i = num_extra - 1; i >= 0; --i) {
    const std::string token = fmt::format("<extra_id_{}>", i);
    add(token, /*special=*/true);
    vocab.push_back(json::array({token, 0.0}));
  }
  return json{{"added_tokens", std::move(added)},
              {"normalizer", PrecompiledNormalizer(file)},
              {"model", {{"type", "Unigram"}, {"unk_id", 2}, {"vocab", std::move(vocab)}}}};
}

absl::StatusOr<json> ReadDebertaV2Model(const CheckpointPath& path, const TokenizerConfig& config) {
  BEAMLINE_ASSIGN_OR_RETURN(const SentencePieceFile file, ReadUnigramFile(path));
  using Type = SentencePieceFile::PieceType;
  json vocab = json::array(), added = json::array();
  int64_t unknown = 0;
  const auto add = [&](const std::string& content, size_t id, bool special) {
    added.push_back(
        {{"id", id}, {"content", content}, {"special", special}, {"normalized", false}});
  };
  // In the order in which transformers assigns ids to missing tokens.
  std::vector<std::string> roles;
  for (const auto& [role, token] : {std::pair("bos_token", "[CLS]"),
                                    {"eos_token", "[SEP]"},
                                    {"unk_token", "[UNK]"},
                                    {"sep_token", "[SEP]"},
                                    {"pad_token", "[PAD]"},
                                    {"cls_token", "[CLS]"},
                                    {"mask_token", "[MASK]"}}) {
    const std::string content = config.Role(role, token);
    if (std::ranges::count(roles, content) == 0) roles.push_back(content);
  }
  absl::flat_hash_set<std::string_view> known;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    known.insert(piece.text);
    const bool special = piece.type == Type::kControl || std::ranges::count(roles, piece.text) > 0;
    if (special || piece.type == Type::kUserDefined) add(piece.text, vocab.size(), special);
    if (piece.type == Type::kUnknown) unknown = static_cast<int64_t>(vocab.size());
    vocab.push_back(json::array({piece.text, piece.score}));
  }
  for (size_t id = vocab.size(); const std::string& role : roles) {
    if (!known.contains(role)) add(role, id++, /*special=*/true);
  }
  return json{{"added_tokens", std::move(added)},
              {"model", {{"type", "Unigram"}, {"unk_id", unknown}, {"vocab", std::move(vocab)}}}};
}

}  // namespace beamline::text
