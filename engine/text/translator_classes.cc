#include "engine/text/translator_classes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "base/status.h"
#include "engine/text/component_json.h"
#include "engine/text/multilingual_tokenizer.h"
#include "engine/text/tokenizer_json.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

using nlohmann::json;

json Replace(const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{"Regex", pattern}}}, {"content", content}};
}

json Sequence(json steps) { return {{"type", "Sequence"}, {"normalizers", std::move(steps)}}; }

// Words start with a mark; `at_white_space`: white space ends a word and is dropped.
void SetMetaspace(bool at_white_space, json& tokenizer) {
  const json metaspace = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
  tokenizer["pre_tokenizer"] = metaspace;
  if (at_white_space) {
    tokenizer["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers", json::array({{{"type", "WhitespaceSplit"}}, metaspace})}};
  }
  tokenizer["decoder"] = metaspace;
}

// Sets the unknown piece, whose id the class defines.
absl::Status SetUnknown(const TokenizerConfig& config, int unk_id, json& tokenizer) {
  json& model = tokenizer["model"];
  const auto vocab = model.find("vocab");
  if (vocab == model.end() || !vocab->is_array() || vocab->size() <= static_cast<size_t>(unk_id)) {
    return JsonNode(config.json, config.place)
        .Error(fmt::format("the tokenizer's class has an unknown token of id {}, which the "
                           "vocabulary does not have",
                           unk_id));
  }
  model["unk_id"] = unk_id;
  model["byte_fallback"] = false;
  model["exact_scores"] = true;
  return absl::OkStatus();
}

// Sets the template: text {end}
absl::Status SetEnd(const TokenizerConfig& config, const std::string& end, json& tokenizer) {
  const json id = IdOf(tokenizer, end);
  if (id.is_null()) {
    return JsonNode(config.json, config.PlaceOf("eos_token"))
        .Error(fmt::format("the end token \"{}\" is not in the vocabulary", end));
  }
  const json single = {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", end}}}}};
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single", single},
                                 {"special_tokens", {{end, {{"ids", json::array({id})}}}}}};
  return absl::OkStatus();
}

// The class's own tokens, which are special even if the file says otherwise.
struct OwnTokens {
  std::string_view language_class = {};  // also the language codes of this class
  std::string_view numbered = {};        // "<extra_id_": also these, followed by a number and ">"
  std::vector<std::string> names;
  std::string mask = {};  // replaces a word including its leading space

  bool Has(std::string_view token) const {
    if (token.empty()) return false;
    if (token == mask || std::ranges::count(names, token) > 0) return true;
    if (IsLanguageCode(language_class, token)) return true;
    if (numbered.empty() || !token.starts_with(numbered) || !token.ends_with('>')) return false;
    token.remove_prefix(numbered.size());
    token.remove_suffix(1);
    return !token.empty() &&
           std::ranges::all_of(token, [](unsigned char c) { return absl::ascii_isdigit(c); });
  }
};

// Tokens that all of these classes have.
std::vector<std::string> Named(const TokenizerConfig& config) {
  return {config.Role("pad_token", "<pad>"), config.Role("eos_token", "</s>"),
          config.Role("unk_token", "<unk>")};
}

OwnTokens OfLanguages(std::string_view language_class, const TokenizerConfig& config) {
  OwnTokens own = {.language_class = language_class, .names = Named(config)};
  own.names.push_back(config.Role("bos_token", "<s>"));
  own.mask = config.Role("mask_token", "<mask>");
  return own;
}

void MarkSpecials(const OwnTokens& own, json& tokenizer) {
  json& added = tokenizer["added_tokens"];
  if (added.is_null()) added = json::array();
  if (!added.is_array()) return;  // the reader of added_tokens reports this
  const auto mark = [&](const std::string& token, const json& id) {
    if (!own.Has(token)) return;
    for (const json& known : added) {
      if (StringMember(known, "content") == token) return;
    }
    added.push_back({{"id", id},
                     {"content", token},
                     {"special", true},
                     {"lstrip", token == own.mask},
                     {"normalized", token == own.mask}});
  };
  const json& model = tokenizer["model"];
  const auto found = model.find("vocab");
  if (found == model.end()) return;
  const json& vocab = *found;
  if (vocab.is_object()) {
    for (const auto& [token, id] : vocab.items()) mark(token, id);
    return;
  }
  // Of equal pieces, the last one has the id.
  for (size_t id = vocab.is_array() ? vocab.size() : 0; id-- > 0;) {
    if (vocab[id].is_array() && !vocab[id].empty() && vocab[id][0].is_string()) {
      mark(vocab[id][0].get<std::string>(), id);
    }
  }
}

}  // namespace

void MarkSpecials(std::vector<std::string> names, json& tokenizer) {
  MarkSpecials(OwnTokens{.names = std::move(names)}, tokenizer);
}

absl::Status ApplyT5(const TokenizerConfig& config, json& tokenizer) {
  tokenizer["normalizer"] = FindPrecompiled(tokenizer.value("normalizer", json()));
  SetMetaspace(/*at_white_space=*/true, tokenizer);
  BEAMLINE_RETURN_IF_ERROR(SetUnknown(config, 2, tokenizer));
  MarkSpecials({.numbered = "<extra_id_", .names = Named(config)}, tokenizer);
  return SetEnd(config, config.Role("eos_token", "</s>"), tokenizer);
}

absl::Status ApplyPegasus(const TokenizerConfig& config, json& tokenizer) {
  const json map = FindPrecompiled(tokenizer.value("normalizer", json()));
  const json first = map.is_null() ? Replace("\n", " ") : map;
  tokenizer["normalizer"] = Sequence(json::array({first, Replace(" {2,}", " ")}));
  SetMetaspace(/*at_white_space=*/false, tokenizer);
  const json unknown = IdOf(tokenizer, config.Role("unk_token", "<unk>"));
  if (unknown.is_number_unsigned()) tokenizer["model"]["unk_id"] = unknown;
  tokenizer["model"]["exact_scores"] = true;
  OwnTokens own = {.numbered = "<unk_", .names = Named(config)};
  own.names.push_back(config.Role("mask_token_sent", "<mask_1>"));
  own.names.push_back(config.Role("mask_token", "<mask_2>"));
  MarkSpecials(own, tokenizer);
  return SetEnd(config, config.Role("eos_token", "</s>"), tokenizer);
}

absl::Status ApplyMBart(const TokenizerConfig& config, json& tokenizer) {
  tokenizer["normalizer"] = nullptr;
  SetMetaspace(/*at_white_space=*/true, tokenizer);
  tokenizer["post_processor"] = nullptr;
  MarkSpecials(OfLanguages(kMBartTokenizer, config), tokenizer);
  return SetUnknown(config, 3, tokenizer);
}

absl::Status ApplyMBart50(const TokenizerConfig& config, json& tokenizer) {
  json steps = json::array();
  json map = FindPrecompiled(tokenizer.value("normalizer", json()));
  if (!map.is_null()) steps.push_back(std::move(map));
  steps.push_back(Replace(" {2,}", " "));
  tokenizer["normalizer"] = Sequence(std::move(steps));
  SetMetaspace(/*at_white_space=*/false, tokenizer);
  tokenizer["post_processor"] = nullptr;
  MarkSpecials(OfLanguages(kMBart50Tokenizer, config), tokenizer);
  return SetUnknown(config, 3, tokenizer);
}

absl::Status ApplyNllb(const TokenizerConfig& config, json& tokenizer) {
  json map = FindPrecompiled(tokenizer.value("normalizer", json()));
  tokenizer["normalizer"] = nullptr;
  if (!map.is_null()) {
    tokenizer["normalizer"] = Sequence(json::array({std::move(map), Replace(" {2,}", " ")}));
  }
  SetMetaspace(/*at_white_space=*/false, tokenizer);
  tokenizer["post_processor"] = nullptr;
  MarkSpecials(OfLanguages(kNllbTokenizer, config), tokenizer);
  json& model = tokenizer["model"];
  model["unk_token"] = config.Role("unk_token", "<unk>");
  model["fuse_unk"] = true;
  model["byte_fallback"] = false;
  model["ignore_merges"] = false;
  model["dropout"] = nullptr;
  model["continuing_subword_prefix"] = nullptr;
  model["end_of_word_suffix"] = nullptr;
  return absl::OkStatus();
}

}  // namespace beamline::text
