#include "engine/text/scored_model.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/status.h"
#include "engine/text/component_json.h"
#include "engine/text/sentencepiece_file.h"
#include "fmt/format.h"

namespace beamline::text {

using nlohmann::json;

namespace {

// The pairs of normal pieces that form another piece, highest score first.
json MergesByScore(const SentencePieceFile& file) {
  absl::flat_hash_set<std::string_view> known;
  std::vector<size_t> order;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    if (file.pieces[id].type != SentencePieceFile::PieceType::kNormal) continue;
    known.insert(file.pieces[id].text);
    order.push_back(id);
  }
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t id) { return file.pieces[id].score; });
  json merges = json::array();
  for (const size_t id : order) {
    const std::string_view text = file.pieces[id].text;
    for (size_t middle = 1; middle < text.size(); ++middle) {
      const std::string_view left = text.substr(0, middle), right = text.substr(middle);
      if (!known.contains(left) || !known.contains(right)) continue;
      merges.push_back(json::array({std::string(left), std::string(right)}));
    }
  }
  return merges;
}

json Replacement(const char* kind, const char* what, const char* with) {
  return {{"type", "Replace"}, {"pattern", {{kind, what}}}, {"content", with}};
}

// What SentencePiece does to a text before segmentation.
json ScoredNormalizer(const SentencePieceFile& file, bool legacy) {
  json steps = json::array();
  if (!file.character_map.empty()) {
    steps.push_back({{"type", "Precompiled"},
                     {"precompiled_charsmap", absl::Base64Escape(file.character_map)}});
  }
  if (file.remove_extra_whitespaces) {
    steps.push_back(Replacement("Regex", R"(\A +| +\z)", ""));
    steps.push_back(Replacement("Regex", " {2,}", " "));
  }
  if (file.escape_whitespaces) steps.push_back(Replacement("String", " ", "▁"));
  // Metaspace does not change a text that starts with a mark.
  if (file.add_dummy_prefix && legacy) steps.push_back(Replacement("Regex", R"(\A▁)", "▁▁"));
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

// A regular expression that matches any of these texts, longest first.
std::string AnyOf(std::vector<std::string> texts) {
  const auto is_begin = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
  std::ranges::stable_sort(texts, std::ranges::greater(), [&](const std::string& text) {
    return std::ranges::count_if(text, is_begin);
  });
  std::string pattern;
  for (const std::string& text : texts) {
    if (!pattern.empty()) pattern += '|';
    for (const char c : text) {
      const bool plain = static_cast<uint8_t>(c) >= 0x80 || absl::ascii_isalnum(c);
      if (!plain) pattern += '\\';
      pattern += c;
    }
  }
  return pattern;
}

}  // namespace

absl::StatusOr<json> ReadScoredModel(const CheckpointPath& path, TokenizerConfig& config) {
  using File = SentencePieceFile;
  BEAMLINE_ASSIGN_OR_RETURN(const File file, ReadBpeFile(path));
  const JsonNode settings(config.json, config.place);
  const bool is_null = config.json.contains("legacy") && config.json["legacy"].is_null();
  BEAMLINE_ASSIGN_OR_RETURN(const bool legacy, settings.BoolOr("legacy", !is_null));
  json vocab = json::object(), added = json::array();
  for (size_t id = 0; id < file.pieces.size(); ++id) vocab[file.pieces[id].text] = id;
  absl::flat_hash_set<std::string> of_roles;
  for (const auto& [role, piece] : {std::pair("unk_token", &file.unknown_piece),
                                    {"bos_token", &file.begin_piece},
                                    {"eos_token", &file.end_piece}}) {
    if (!config.json.contains(role) && !piece->empty()) config.json[role] = *piece;
    const std::string token = config.Role(role, "");
    if (!token.empty()) of_roles.insert(token);
  }
  for (AddedToken& token : config.added_tokens) {
    const auto id = static_cast<size_t>(token.id);
    if (id < file.pieces.size() && file.pieces[id].text != token.content) {
      return absl::UnimplementedError(fmt::format(
          "{}: token {} of added_tokens_decoder is \"{}\"; accepted: \"{}\", as {} has it",
          config.place, id, token.content, file.pieces[id].text, path.string()));
    }
    if (file.add_dummy_prefix) token.normalized = false;
  }
  std::vector<std::string> whole;  // pieces that are matched literally
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const File::Piece& piece = file.pieces[id];
    if (piece.type == File::PieceType::kUserDefined) whole.push_back(piece.text);
    if (piece.type != File::PieceType::kControl && !of_roles.contains(piece.text)) continue;
    added.push_back(
        {{"id", id}, {"content", piece.text}, {"special", true}, {"normalized", false}});
  }
  json cuts = json::array(), steps = json::array({Replacement("String", "▁", " ")});
  if (file.add_dummy_prefix) {
    cuts.push_back({{"type", "Metaspace"},
                    {"replacement", "▁"},
                    {"prepend_scheme", legacy ? "always" : "first"},
                    {"split", false}});
  }
  if (!whole.empty()) {
    cuts.push_back({{"type", "Split"},
                    {"pattern", {{"Regex", AnyOf(whole)}}},
                    {"behavior", "Isolated"},
                    {"invert", false}});
  }
  if (file.byte_fallback) steps.push_back({{"type", "ByteFallback"}});
  if (file.add_dummy_prefix || file.byte_fallback) steps.push_back({{"type", "Fuse"}});
  if (file.add_dummy_prefix) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  json made = {{"added_tokens", std::move(added)},
               {"normalizer", ScoredNormalizer(file, legacy)},
               {"decoder", {{"type", "Sequence"}, {"decoders", std::move(steps)}}},
               {"model",
                {{"type", "BPE"},
                 {"vocab", std::move(vocab)},
                 {"merges", MergesByScore(file)},
                 {"unk_token", file.unknown_piece.empty() ? "<unk>" : file.unknown_piece},
                 {"fuse_unk", true},
                 {"byte_fallback", file.byte_fallback},
                 {"ignore_merges", !whole.empty()}}}};
  if (!cuts.empty()) made["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", cuts}};
  return made;
}

}  // namespace beamline::text
