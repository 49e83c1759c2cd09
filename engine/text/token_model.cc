#include "engine/text/token_model.h"

#include <utility>

#include "base/status.h"
#include "engine/text/bpe_model.h"
#include "engine/text/unigram_model.h"
#include "engine/text/wordpiece_model.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

// A merge: "left right" in files before tokenizers 0.20, or ["left", "right"].
absl::StatusOr<std::pair<std::string, std::string>> ReadMerge(const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
  }
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return std::pair(text.substr(0, space), text.substr(space + 1));
    }
  }
  return absl::InvalidArgumentError(fmt::format("{}, expected two tokens", merge.dump()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TokenModel>> BpeModel::FromJson(const JsonNode& node,
                                                               bool raw_bytes) {
  BpeConfig config;
  config.raw_bytes = raw_bytes;
  BEAMLINE_ASSIGN_OR_RETURN(config.unk_token, node.StringOr("unk_token", ""));
  BEAMLINE_ASSIGN_OR_RETURN(config.continuing_subword_prefix,
                            node.StringOr("continuing_subword_prefix", ""));
  BEAMLINE_ASSIGN_OR_RETURN(config.end_of_word_suffix, node.StringOr("end_of_word_suffix", ""));
  BEAMLINE_ASSIGN_OR_RETURN(config.fuse_unk, node.BoolOr("fuse_unk", false));
  BEAMLINE_ASSIGN_OR_RETURN(config.byte_fallback, node.BoolOr("byte_fallback", false));
  BEAMLINE_ASSIGN_OR_RETURN(config.ignore_merges, node.BoolOr("ignore_merges", false));
  if (node.Has("dropout") && node.value()["dropout"] != 0.0) {
    return node.Error(fmt::format("\"dropout\" is {}: sampled merges are for training only",
                                  node.value()["dropout"].dump()));
  }
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode vocab, node.Object("vocab"));
  BEAMLINE_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::FromJson(vocab));
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode merge_list, node.Array("merges"));
  BpeMerges merges;
  merges.reserve(merge_list.value().size());
  for (const nlohmann::json& json : merge_list.value()) {
    auto merge = ReadMerge(json);
    if (!merge.ok()) {
      return merge_list.Error(
          fmt::format("entry {} is {}", merges.size(), std::string(merge.status().message())));
    }
    merges.push_back(*std::move(merge));
  }
  auto model = Make(std::move(vocabulary), merges, std::move(config));
  if (!model.ok()) return node.Error(std::string(model.status().message()));
  return *std::move(model);
}

bool CanTakeRawBytes(const JsonNode& node) {
  const nlohmann::json& json = node.value();
  const auto is_off = [&](const char* key) {
    return !node.Has(key) || json[key] == false || json[key] == "";
  };
  return json.is_object() && json.value("type", nlohmann::json("BPE")) == "BPE" &&
         is_off("continuing_subword_prefix") && is_off("end_of_word_suffix") &&
         is_off("byte_fallback");
}

absl::StatusOr<std::unique_ptr<TokenModel>> MakeTokenModel(const JsonNode& node, bool raw_bytes) {
  // Files before tokenizers 0.8 have no type; each model has a member that identifies it.
  std::string type;
  if (node.Has("type")) {
    BEAMLINE_ASSIGN_OR_RETURN(type, node.Type());
  } else if (node.Has("merges")) {
    type = "BPE";
  } else if (node.Has("max_input_chars_per_word")) {
    type = "WordPiece";
  } else if (node.Has("unk_id")) {
    type = "Unigram";
  } else {
    return node.Error("\"type\" is missing");
  }
  if (type == "BPE") return BpeModel::FromJson(node, raw_bytes);
  if (type == "WordPiece") return WordPieceFromJson(node);
  if (type == "Unigram") return UnigramFromJson(node);
  if (type == "WordLevel") return WordLevelFromJson(node);
  return node.UnknownType("model", type);
}

}  // namespace beamline::text
