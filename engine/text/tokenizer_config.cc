#include "engine/text/tokenizer_config.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "engine/checkpoint/json_file.h"
#include "engine/text/byte_trie.h"
#include "engine/text/component_json.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

using nlohmann::json;

constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};
constexpr const char* kExtraTokens = "extra_special_tokens";
constexpr const char* kAdditionalTokens = "additional_special_tokens";  // its older name
constexpr const char* kTokenLists[] = {kExtraTokens, kAdditionalTokens};
constexpr double kLargestMaxLength = 1e9;  // transformers writes 1e30 for "no limit"

// Returns the content of a token, which is a string or {"content": ...}.
std::optional<std::string> TokenContent(const json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string()) {
    return token["content"].get<std::string>();
  }
  return std::nullopt;
}

// Makes a special token; if it is only a string, it is matched literally.
absl::StatusOr<AddedToken> MakeSpecialToken(const JsonNode& file, const json& token) {
  AddedToken made;
  made.content = TokenContent(token).value_or("");
  made.special = true;
  made.normalized = false;
  if (!token.is_object()) return made;
  const JsonNode node(token, file.place());
  BEAMLINE_ASSIGN_OR_RETURN(made.single_word, node.BoolOr("single_word", false));
  BEAMLINE_ASSIGN_OR_RETURN(made.lstrip, node.BoolOr("lstrip", false));
  BEAMLINE_ASSIGN_OR_RETURN(made.rstrip, node.BoolOr("rstrip", false));
  BEAMLINE_ASSIGN_OR_RETURN(made.normalized, node.BoolOr("normalized", false));
  return made;
}

absl::Status CollectSpecialTokens(const JsonNode& file, std::vector<AddedToken>* tokens) {
  absl::flat_hash_set<std::string> known;
  for (const AddedToken& token : *tokens) known.insert(token.content);
  const auto add = [&](const json& token) -> absl::Status {
    BEAMLINE_ASSIGN_OR_RETURN(AddedToken made, MakeSpecialToken(file, token));
    if (made.content.size() > kMaxTokenBytes) {
      return file.Error(fmt::format("a token of {} bytes; accepted: at most {}",
                                    made.content.size(), kMaxTokenBytes));
    }
    if (!made.content.empty() && known.insert(made.content).second) {
      tokens->push_back(std::move(made));
    }
    return absl::OkStatus();
  };
  for (const char* role : kRoles) {
    if (!file.Has(role)) continue;
    const json& token = file.value()[role];
    if (!TokenContent(token).has_value()) {
      return file.Error(fmt::format("\"{}\" is {}, expected a token", role, token.dump()));
    }
    BEAMLINE_RETURN_IF_ERROR(add(token));
  }
  for (const char* list : kTokenLists) {
    if (!file.Has(list) || !file.value()[list].is_structured()) continue;
    for (const json& token : file.value()[list]) BEAMLINE_RETURN_IF_ERROR(add(token));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<AddedToken>> ReadAddedTokensDecoder(const JsonNode& root) {
  std::vector<AddedToken> tokens;
  if (!root.Has("added_tokens_decoder")) return tokens;
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, root.Object("added_tokens_decoder"));
  json list = json::array();
  for (const auto& [id, token] : node.value().items()) {
    char* end = nullptr;
    const long long number = std::strtoll(id.c_str(), &end, 10);
    if (!token.is_object() || id.empty() || *end != '\0') {
      return node.Error(fmt::format("\"{}\" is not an id with a token", id));
    }
    list.push_back(token);
    list.back()["id"] = number;
  }
  return ReadAddedTokens(JsonNode(list, node.place()), Vocabulary());
}

// 0: no limit. Files before transformers 2 have max_len, which is used if model_max_length is
// absent.
absl::StatusOr<int64_t> ReadMaxLength(const JsonNode& root) {
  const char* key = root.value().contains("model_max_length") ? "model_max_length" : "max_len";
  if (!root.Has(key)) return 0;
  const json& value = root.value()[key];
  const double length = value.is_number() ? value.get<double>() : 0;
  if (length > kLargestMaxLength) return 0;
  if (length < 1 || length != std::floor(length)) {
    return root.Error(
        fmt::format("\"{}\" is {}, expected a whole number from 1", key, value.dump()));
  }
  return static_cast<int64_t>(length);
}

// Moves the value under the older name to the newer name if that is empty.
void TakeOlderName(json& object) {
  const auto older = object.find(kAdditionalTokens);
  if (older == object.end() || !object.value(kExtraTokens, json()).empty()) return;
  object[kExtraTokens] = std::exchange(*older, json());
  object.erase(kAdditionalTokens);
}

void MergeSpecialTokensMap(const json& map, TokenizerConfig& config) {
  const auto take = [&](const char* key) {
    if (!map.contains(key)) return;
    const bool extends = std::string_view(key) == kExtraTokens && map[key].is_array() &&
                         config.json.contains(key) && config.json[key].is_array();
    json value = extends ? config.json[key] : json::array();
    if (extends) {
      value.insert(value.end(), map[key].begin(), map[key].end());
    } else {
      value = map[key];
    }
    config.json[key] = std::move(value);
    config.from_map.insert(key);
  };
  for (const char* role : kRoles) take(role);
  for (const char* list : kTokenLists) take(list);
}

// A list under the older name is ignored if there is a list under the newer one, even an empty one;
// it counts if the newer one has named tokens.
void DropOlderName(json& object) {
  const auto newer = object.find(kExtraTokens);
  if (newer != object.end() && !newer->is_object()) object.erase(kAdditionalTokens);
}

// Reads added_tokens.json, from before added_tokens_decoder: ids by token. Tokens in `specials` are
// special.
absl::StatusOr<std::vector<AddedToken>> ReadAddedTokensFile(
    const JsonNode& file, const std::vector<AddedToken>& specials) {
  std::vector<AddedToken> tokens;
  for (const auto& [content, id] : file.value().items()) {
    if (!id.is_number_integer() || id < 0 || id >= kMaxTokens) {
      return file.Error(fmt::format("\"{}\" is {}, expected an id from 0 to {}", content, id.dump(),
                                    kMaxTokens - 1));
    }
    if (content.size() > kMaxTokenBytes) {
      return file.Error(
          fmt::format("a token of {} bytes; accepted: at most {}", content.size(), kMaxTokenBytes));
    }
    const bool special = std::ranges::count(specials, content, &AddedToken::content) > 0;
    AddedToken token;
    token.content = content;
    token.id = id.get<int32_t>();
    token.normalized = !special;
    token.special = special;
    if (!content.empty()) tokens.push_back(std::move(token));
  }
  return tokens;
}

absl::StatusOr<json> ReadOptionalObject(const CheckpointPath& path) {
  auto object = ReadJsonObject(path, kMaxTokenizerFileBytes);
  if (absl::IsNotFound(object.status())) return json::object();
  return object;
}

}  // namespace

std::string TokenizerConfig::Role(const char* role, std::string_view otherwise) const {
  if (!json.contains(role)) return std::string(otherwise);
  return TokenContent(json[role]).value_or(std::string(otherwise));
}

std::vector<std::string> TokenizerConfig::ModelInputNames() const {
  std::vector<std::string> names;
  const auto list = json.find("model_input_names");
  if (list == json.end() || !list->is_array()) return names;
  for (const auto& name : *list) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  return names;
}

const std::string& TokenizerConfig::PlaceOf(std::string_view role) const {
  return from_map.contains(role) ? map_place : place;
}

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const CheckpointPath& folder) {
  TokenizerConfig config;
  const CheckpointPath path = folder / "tokenizer_config.json";
  config.place = path.string();
  BEAMLINE_ASSIGN_OR_RETURN(config.json, ReadOptionalObject(path));
  const CheckpointPath map_path = folder / "special_tokens_map.json";
  config.map_place = map_path.string();
  BEAMLINE_ASSIGN_OR_RETURN(const json special_map, ReadOptionalObject(map_path));
  std::vector<AddedToken> of_map;
  BEAMLINE_RETURN_IF_ERROR(CollectSpecialTokens(JsonNode(special_map, config.map_place), &of_map));
  const JsonNode root(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(config.added_tokens, ReadAddedTokensDecoder(root));
  // With this setting, special tokens in a text would be split like any other text.
  BEAMLINE_ASSIGN_OR_RETURN(const bool split, root.BoolOr("split_special_tokens", false));
  if (split) return root.Error("\"split_special_tokens\" is true; only false is supported");
  // This setting splits words differently from the file, for Mistral.
  BEAMLINE_ASSIGN_OR_RETURN(const bool fix, root.BoolOr("fix_mistral_regex", false));
  if (fix) return root.Error("\"fix_mistral_regex\" is true; only false is supported");
  BEAMLINE_RETURN_IF_ERROR(CollectSpecialTokens(root, &config.special_tokens));
  const CheckpointPath added_path = folder / "added_tokens.json";
  BEAMLINE_ASSIGN_OR_RETURN(const json added, ReadOptionalObject(added_path));
  const JsonNode added_node(added, added_path.string());
  BEAMLINE_RETURN_IF_ERROR(ReadAddedTokensFile(added_node, {}).status());
  // transformers reads the older files only if the newer one does not list its tokens, and then
  // they take precedence.
  const bool is_older = !config.json.contains("added_tokens_decoder");
  TakeOlderName(config.json);
  if (is_older) MergeSpecialTokensMap(special_map, config);
  DropOlderName(config.json);
  config.special_tokens.clear();
  BEAMLINE_RETURN_IF_ERROR(
      CollectSpecialTokens(JsonNode(config.json, config.place), &config.special_tokens));
  if (is_older) {
    BEAMLINE_ASSIGN_OR_RETURN(config.added_tokens,
                              ReadAddedTokensFile(added_node, config.special_tokens));
  }
  BEAMLINE_ASSIGN_OR_RETURN(config.clean_up_tokenization_spaces,
                            root.BoolOr("clean_up_tokenization_spaces", false));
  BEAMLINE_ASSIGN_OR_RETURN(config.model_max_length, ReadMaxLength(root));
  return config;
}

}  // namespace beamline::text
