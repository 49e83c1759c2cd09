// Long because it contains the parts of each class.
#include "engine/text/tokenizer_class.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/text/component_json.h"
#include "engine/text/multilingual_tokenizer.h"
#include "engine/text/normalizers.h"
#include "engine/text/pre_tokenizers.h"
#include "engine/text/tokenizer_json.h"
#include "engine/text/translator_classes.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

using nlohmann::json;

struct TokenizerClass {
  std::string_view model_type;  // in config.json; empty: no model type uses the class by default
  std::string_view name;        // in tokenizer_config.json, with or without the suffix "Fast"
  std::string_view model;       // model type in tokenizer.json, if the class does not replace it
  absl::Status (*apply)(const TokenizerConfig& config, json& tokenizer);
  // Defaults of bos_token and eos_token; empty: none.
  std::string_view begin = {}, end = {};
};

// A role in tokenizer_config.json, and its default token.
using Role = std::pair<const char*, const char*>;

// Sets the template {first} text {last} with the class's own tokens, whatever tokenizer.json has.
// If the vocabulary lacks these tokens, the file's template stays, unless the tokens were
// configured.
absl::Status SetTemplate(const TokenizerConfig& config, const Role& first, const Role& last,
                         const char* type, json& tokenizer) {
  json ids = json::array();
  for (const Role& role : {first, last}) {
    const std::string content = config.Role(role.first, role.second);
    const json id = IdOf(tokenizer, content);
    if (!id.is_null()) {
      ids.push_back(json::array({content, id}));
    } else if (config.json.contains(role.first)) {
      return JsonNode(config.json, config.PlaceOf(role.first))
          .Error(fmt::format("\"{}\" is {}, which tokenizer.json does not have", role.first,
                             config.json[role.first].dump()));
    }
  }
  if (ids.size() == 2) {
    tokenizer["post_processor"] = {{"type", type}, {"cls", ids[0]}, {"sep", ids[1]}};
  }
  return absl::OkStatus();
}

// The same as a template without type ids; a text pair has `num_between` {last} between the texts.
// (BERT's template has type ids; RobertaProcessing has two {last} but also trims offsets.)
json Untyped(const json& cls_sep, int num_between) {
  json specials = json::object(), single = json::array(), pair = json::array();
  const auto add = [&](json& pieces, const json& token) {
    specials[token[0].get<std::string>()] = {{"ids", json::array({token[1]})}};
    pieces.push_back({{"SpecialToken", {{"id", token[0]}}}});
  };
  const auto add_text = [](json& pieces, const char* name) {
    pieces.push_back({{"Sequence", {{"id", name}}}});
  };
  const json& first = cls_sep["cls"];
  const json& last = cls_sep["sep"];
  add(single, first);
  add_text(single, "A");
  add(single, last);
  add(pair, first);
  add_text(pair, "A");
  for (int i = 0; i < num_between; ++i) add(pair, last);
  add_text(pair, "B");
  add(pair, last);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", specials}};
}

constexpr uint64_t kBertWordLength = 100;  // in characters; longer words are unknown

absl::Status ApplyBert(const TokenizerConfig& config, json& tokenizer) {
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool lowercase, settings.BoolOr("do_lower_case", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool strip_accents, settings.BoolOr("strip_accents", lowercase));
  BEAMLINE_ASSIGN_OR_RETURN(const bool chinese, settings.BoolOr("tokenize_chinese_chars", true));
  tokenizer["normalizer"] = {{"type", "BertNormalizer"},
                             {"clean_text", true},
                             {"handle_chinese_chars", chinese},
                             {"strip_accents", strip_accents},
                             {"lowercase", lowercase}};
  tokenizer["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  tokenizer["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  json& model = tokenizer["model"];
  model["unk_token"] = config.Role("unk_token", "[UNK]");
  // A value of another type is kept, so that it is rejected later.
  const auto replace = [&model](const char* name, json value) {
    json& of_file = model[name];
    if (of_file.is_null() || of_file.type() == value.type()) of_file = std::move(value);
  };
  replace("max_input_chars_per_word", json(kBertWordLength));
  replace("continuing_subword_prefix", json("##"));
  return SetTemplate(config, {"cls_token", "[CLS]"}, {"sep_token", "[SEP]"}, "BertProcessing",
                     tokenizer);
}

// GPT-2's parts; the template is the file's.
absl::Status ApplyGpt2(const TokenizerConfig& config, json& tokenizer) {
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool prefix_space, settings.BoolOr("add_prefix_space", false));
  tokenizer["normalizer"] = nullptr;
  tokenizer["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", prefix_space}};
  tokenizer["decoder"] = {{"type", "ByteLevel"}};
  return absl::OkStatus();
}

absl::Status ApplyRoberta(const TokenizerConfig& config, json& tokenizer) {
  BEAMLINE_RETURN_IF_ERROR(ApplyGpt2(config, tokenizer));
  BEAMLINE_RETURN_IF_ERROR(SetTemplate(config, {"cls_token", "<s>"}, {"sep_token", "</s>"},
                                       "RobertaProcessing", tokenizer));
  json& post_processor = tokenizer["post_processor"];
  if (StringMember(post_processor, "type") == "RobertaProcessing") {
    const JsonNode settings(config.json, config.place);
    BEAMLINE_ASSIGN_OR_RETURN(const bool trim, settings.BoolOr("trim_offsets", true));
    post_processor["add_prefix_space"] = tokenizer["pre_tokenizer"]["add_prefix_space"];
    post_processor["trim_offsets"] = trim;
  }
  return absl::OkStatus();
}

absl::Status ApplyXlmRoberta(const TokenizerConfig& config, json& tokenizer) {
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool prefix_space, settings.BoolOr("add_prefix_space", true));
  tokenizer["normalizer"] = FindPrecompiled(tokenizer.value("normalizer", json()));
  const json metaspace = {{"type", "Metaspace"},
                          {"replacement", "▁"},
                          {"prepend_scheme", prefix_space ? "always" : "never"},
                          {"split", true}};
  tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", json::array({{{"type", "WhitespaceSplit"}}, metaspace})}};
  tokenizer["decoder"] = metaspace;
  json& post_processor = tokenizer["post_processor"];
  const json of_file = std::exchange(post_processor, json());
  BEAMLINE_RETURN_IF_ERROR(SetTemplate(config, {"bos_token", "<s>"}, {"eos_token", "</s>"},
                                       "BertProcessing", tokenizer));
  post_processor = post_processor.is_null() ? of_file : Untyped(post_processor, 2);
  return absl::OkStatus();
}

// BERT's words with RoBERTa's special tokens.
absl::Status ApplyMpNet(const TokenizerConfig& config, json& tokenizer) {
  BEAMLINE_RETURN_IF_ERROR(ApplyBert(config, tokenizer));
  BEAMLINE_RETURN_IF_ERROR(SetTemplate(config, {"cls_token", "<s>"}, {"sep_token", "</s>"},
                                       "RobertaProcessing", tokenizer));
  json& post_processor = tokenizer["post_processor"];
  if (StringMember(post_processor, "type") == "RobertaProcessing") {
    post_processor["add_prefix_space"] = false;
    post_processor["trim_offsets"] = true;
  }
  return absl::OkStatus();
}

absl::Status ApplyAlbert(const TokenizerConfig& config, json& tokenizer) {
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool lowercase, settings.BoolOr("do_lower_case", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool keep_accents, settings.BoolOr("keep_accents", false));
  BEAMLINE_ASSIGN_OR_RETURN(const bool prefix_space, settings.BoolOr("add_prefix_space", true));
  const auto quote = [](const char* what) {
    return json{{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", "\""}};
  };
  json steps = json::array({quote("``"), quote("''")});
  if (!keep_accents) {
    steps.push_back({{"type", "NFKD"}});
    steps.push_back({{"type", "StripAccents"}});
  }
  if (lowercase) steps.push_back({{"type", "Lowercase"}});
  const json precompiled = FindPrecompiled(tokenizer.value("normalizer", json()));
  if (!precompiled.is_null()) steps.push_back(precompiled);
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  const json metaspace = {{"type", "Metaspace"},
                          {"replacement", "▁"},
                          {"prepend_scheme", prefix_space ? "always" : "never"},
                          {"split", true}};
  tokenizer["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", json::array({{{"type", "WhitespaceSplit"}}, metaspace})}};
  tokenizer["decoder"] = metaspace;
  tokenizer["model"]["unk_id"] = 1;
  tokenizer["model"]["byte_fallback"] = false;
  json& post_processor = tokenizer["post_processor"];
  const json of_file = std::exchange(post_processor, json());
  BEAMLINE_RETURN_IF_ERROR(SetTemplate(config, {"cls_token", "[CLS]"}, {"sep_token", "[SEP]"},
                                       "BertProcessing", tokenizer));
  if (post_processor.is_null()) post_processor = of_file;
  return absl::OkStatus();
}

// DeBERTa's special tokens, which are special even if the file says otherwise.
void MarkDebertaTokens(const TokenizerConfig& config, json& tokenizer) {
  MarkSpecials({config.Role("bos_token", "[CLS]"), config.Role("eos_token", "[SEP]"),
                config.Role("unk_token", "[UNK]"), config.Role("sep_token", "[SEP]"),
                config.Role("pad_token", "[PAD]"), config.Role("cls_token", "[CLS]"),
                config.Role("mask_token", "[MASK]")},
               tokenizer);
}

// SentencePiece pieces; the class finds the unknown piece by its text and takes nothing else of the
// file.
absl::Status ApplyDebertaV2(const TokenizerConfig& config, json& tokenizer) {
  constexpr int64_t kUnknownId = 1;  // default of the file's unk_id
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool lowercase, settings.BoolOr("do_lower_case", false));
  BEAMLINE_ASSIGN_OR_RETURN(const bool splits, settings.BoolOr("split_by_punct", false));
  BEAMLINE_ASSIGN_OR_RETURN(const bool prefix_space, settings.BoolOr("add_prefix_space", true));
  json steps = json::array();
  if (lowercase) steps.push_back({{"type", "Lowercase"}});
  steps.push_back(
      {{"type", "Replace"}, {"pattern", {{"Regex", R"(\s{2,}|[\n\r\t])"}}}, {"content", " "}});
  steps.push_back({{"type", "NFC"}});
  steps.push_back({{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}});
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  const json metaspace = {{"type", "Metaspace"},
                          {"replacement", "▁"},
                          {"prepend_scheme", prefix_space ? "always" : "first"},
                          {"split", true}};
  json cuts = json::array();
  if (splits) cuts.push_back({{"type", "Punctuation"}, {"behavior", "Isolated"}});
  cuts.push_back(metaspace);
  tokenizer["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::move(cuts)}};
  tokenizer["decoder"] = metaspace;
  json& model = tokenizer["model"];
  const json unknown = json::array({config.Role("unk_token", "[UNK]"), 0.0});
  const json& vocab = model["vocab"];
  const auto found = std::find(vocab.begin(), vocab.end(), unknown);
  BEAMLINE_ASSIGN_OR_RETURN(const int64_t of_file,
                            settings.IntOr("unk_id", kUnknownId, 0, kMaxTokens));
  model["unk_id"] = found == vocab.end() ? of_file : found - vocab.begin();
  model["byte_fallback"] = false;
  model["exact_scores"] = true;
  MarkDebertaTokens(config, tokenizer);
  return SetTemplate(config, {"cls_token", "[CLS]"}, {"sep_token", "[SEP]"}, "BertProcessing",
                     tokenizer);
}

// Sets BPE over characters or bytes as its class does; only words and merges come from the file.
void SetBpe(bool over_characters, json& model) {
  model["unk_token"] = nullptr;
  model["fuse_unk"] = over_characters;
  model["byte_fallback"] = over_characters;
  model["ignore_merges"] = false;
  model["dropout"] = nullptr;
  model["continuing_subword_prefix"] = nullptr;
  model["end_of_word_suffix"] = nullptr;
}

// GPT-2's words with BERT's special tokens, without type ids.
absl::Status ApplyDeberta(const TokenizerConfig& config, json& tokenizer) {
  BEAMLINE_RETURN_IF_ERROR(ApplyGpt2(config, tokenizer));
  SetBpe(/*over_characters=*/false, tokenizer["model"]);
  MarkDebertaTokens(config, tokenizer);
  json& post_processor = tokenizer["post_processor"];
  const json of_file = std::exchange(post_processor, json());
  BEAMLINE_RETURN_IF_ERROR(SetTemplate(config, {"cls_token", "[CLS]"}, {"sep_token", "[SEP]"},
                                       "BertProcessing", tokenizer));
  post_processor = post_processor.is_null() ? of_file : Untyped(post_processor, 2);
  return absl::OkStatus();
}

// Whether this part of the file uses byte-level spellings.
bool HasByteLevel(const json& part) {
  if (!part.is_structured()) return false;
  if (StringMember(part, "type") == "ByteLevel") return true;
  return std::ranges::any_of(part, HasByteLevel);
}

// Words over characters; `scheme` says when a space is added before the text.
void MakeLlama(const char* scheme, bool strips_space, json& tokenizer) {
  tokenizer["normalizer"] = nullptr;
  tokenizer["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
  json steps = json::array({{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                            {{"type", "ByteFallback"}},
                            {{"type", "Fuse"}}});
  if (strips_space) {
    steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  tokenizer["decoder"] = {{"type", "Sequence"}, {"decoders", std::move(steps)}};
  SetBpe(/*over_characters=*/true, tokenizer["model"]);
}

// A Llama 3 file that names the class is used unchanged.
absl::Status ApplyLlama(const TokenizerConfig& config, json& tokenizer) {
  for (const char* part : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    if (HasByteLevel(tokenizer.value(part, json()))) return absl::OkStatus();
  }
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool prefix_space, settings.BoolOr("add_prefix_space", true));
  BEAMLINE_ASSIGN_OR_RETURN(const bool legacy, settings.BoolOr("legacy", false));
  MakeLlama(!prefix_space ? "never" : legacy ? "always" : "first", prefix_space, tokenizer);
  return absl::OkStatus();
}

absl::Status ApplyCodeLlama(const TokenizerConfig& config, json& tokenizer) {
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool prefix_space, settings.BoolOr("add_prefix_space", true));
  MakeLlama(prefix_space ? "first" : "never", /*strips_space=*/true, tokenizer);
  tokenizer["model"]["unk_token"] = config.Role("unk_token", "<unk>");
  return absl::OkStatus();
}

absl::Status ApplyQwen2(const TokenizerConfig& config, json& tokenizer) {
  constexpr const char* kWords =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const JsonNode settings(config.json, config.place);
  BEAMLINE_ASSIGN_OR_RETURN(const bool prefix_space, settings.BoolOr("add_prefix_space", false));
  tokenizer["normalizer"] = {{"type", "NFC"}};
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kWords}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", prefix_space}, {"use_regex", false}};
  tokenizer["pre_tokenizer"] = {{"type", "Sequence"},
                                {"pretokenizers", json::array({split, bytes})}};
  tokenizer["decoder"] = {{"type", "ByteLevel"}};
  SetBpe(/*over_characters=*/false, tokenizer["model"]);
  return absl::OkStatus();
}

// Its template has no tokens, even if the file's has.
absl::Status ApplyGptNeoX(const TokenizerConfig& config, json& tokenizer) {
  BEAMLINE_RETURN_IF_ERROR(ApplyGpt2(config, tokenizer));
  tokenizer["normalizer"] = {{"type", "NFC"}};
  tokenizer["post_processor"] = nullptr;
  SetBpe(/*over_characters=*/false, tokenizer["model"]);
  return absl::OkStatus();
}

// Words over characters that end with a space; no space is added before the text.
absl::Status ApplyGemma(const TokenizerConfig& config, json& tokenizer) {
  const auto replace = [](const char* what, const char* with) {
    return json{{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", with}};
  };
  tokenizer["normalizer"] = replace(" ", "▁");
  tokenizer["pre_tokenizer"] = {{"type", "Split"},
                                {"pattern", {{"String", " "}}},
                                {"behavior", "MergedWithPrevious"},
                                {"invert", false}};
  tokenizer["decoder"] = {
      {"type", "Sequence"},
      {"decoders",
       json::array({replace("▁", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}})}};
  SetBpe(/*over_characters=*/true, tokenizer["model"]);
  tokenizer["model"]["unk_token"] = config.Role("unk_token", "<unk>");
  return absl::OkStatus();
}

constexpr std::string_view kEndOfText = "<|endoftext|>";
constexpr std::array<TokenizerClass, 21> kClasses = {{
    {"bert", "BertTokenizer", "WordPiece", ApplyBert},
    {"distilbert", "DistilBertTokenizer", "WordPiece", ApplyBert},
    {"electra", "ElectraTokenizer", "WordPiece", ApplyBert},
    {"roberta", "RobertaTokenizer", "BPE", ApplyRoberta},
    {"mpnet", kMpNetTokenizer, "WordPiece", ApplyMpNet},
    {"albert", "AlbertTokenizer", "Unigram", ApplyAlbert},
    {"gpt2", "GPT2Tokenizer", "BPE", ApplyGpt2, kEndOfText, kEndOfText},
    {"xlm-roberta", "XLMRobertaTokenizer", "Unigram", ApplyXlmRoberta},
    {"", kLlamaTokenizer, "BPE", ApplyLlama, "<s>", "</s>"},
    {"", "CodeLlamaTokenizer", "BPE", ApplyCodeLlama},
    {"qwen2", "Qwen2Tokenizer", "BPE", ApplyQwen2, {}, kEndOfText},
    {"bart", "BartTokenizer", "BPE", ApplyRoberta},
    {"t5", kT5Tokenizer, "Unigram", ApplyT5},
    {"pegasus", "PegasusTokenizer", "Unigram", ApplyPegasus},
    {"mbart", kMBartTokenizer, "Unigram", ApplyMBart},
    {"", kMBart50Tokenizer, "Unigram", ApplyMBart50},
    {"", kNllbTokenizer, "BPE", ApplyNllb},
    {"gpt_neox", "GPTNeoXTokenizer", "BPE", ApplyGptNeoX, kEndOfText, kEndOfText},
    {"gemma", kGemmaTokenizer, "BPE", ApplyGemma, "<bos>", "<eos>"},
    {"deberta-v2", kDebertaV2Tokenizer, "Unigram", ApplyDebertaV2},
    {"deberta", "DebertaTokenizer", "BPE", ApplyDeberta},
}};

// Model types that use the class of another model type.
constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kAlike = {{
    {"nomic_bert", "bert"},
    {"mt5", "t5"},
    {"qwen3", "qwen2"},
    {"qwen2_moe", "qwen2"},
    {"qwen3_moe", "qwen2"},
    {"olmo", "gpt_neox"},
    {"olmoe", "gpt_neox"},
    {"gptj", "gpt2"},
    {"gpt_neo", "gpt2"},
    {"opt", "gpt2"},
    {"starcoder2", "gpt2"},
    {"gemma2", "gemma"},
    {"gemma3_text", "gemma"},
}};

// Other names that transformers uses for the same class.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kSameClasses = {{
    {"MobileBertTokenizer", "BertTokenizer"},
    {"SqueezeBertTokenizer", "BertTokenizer"},
    {"LayoutLMTokenizer", "BertTokenizer"},
    {"LxmertTokenizer", "BertTokenizer"},
    {"ConvBertTokenizer", "BertTokenizer"},
    {"DPRContextEncoderTokenizer", "BertTokenizer"},
    {"DPRQuestionEncoderTokenizer", "BertTokenizer"},
    {"LongformerTokenizer", "RobertaTokenizer"},
    {"LEDTokenizer", "RobertaTokenizer"},
}};

}  // namespace

std::string TokenizerClassName(const TokenizerConfig& config, const json& model_config) {
  std::string model_type = StringMember(model_config, "model_type");
  // Their files may name a class that transformers does not use.
  for (const char* plain : {"mistral", "mixtral", "modernbert", "olmo2", "phi3"}) {
    if (model_type == plain) return "";
  }
  if (model_type == "qwen2") return "Qwen2Tokenizer";
  for (const auto& [alike, known] : kAlike) {
    if (model_type == alike) model_type = known;
  }
  std::string name = StringMember(config.json, "tokenizer_class");
  if (name.empty()) name = StringMember(model_config, "tokenizer_class");
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  for (const auto& [alike, known] : kSameClasses) {
    if (name == alike) name = known;
  }
  if (!name.empty() || model_type.empty()) return name;
  if (model_type == "m2m_100") return std::string(kM2M100Tokenizer);
  if (model_type == "marian") return std::string(kMarianTokenizer);
  const auto known = std::ranges::find(kClasses, model_type, &TokenizerClass::model_type);
  return known == kClasses.end() ? "" : std::string(known->name);
}

namespace {

// Parts that the class replaces must still be valid; otherwise the file is rejected.
absl::Status CheckReplaced(const JsonNode& root) {
  if (root.Has("normalizer")) {
    BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, root.Member("normalizer"));
    BEAMLINE_RETURN_IF_ERROR(MakeNormalizer(node).status());
  }
  if (!root.Has("pre_tokenizer")) return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(const JsonNode node, root.Member("pre_tokenizer"));
  return MakePreTokenizer(node, /*allow_raw_bytes=*/false).status();
}

}  // namespace

absl::Status ApplyTokenizerClass(const TokenizerConfig& config, const json& model_config,
                                 const std::string& place, json& tokenizer) {
  if (!tokenizer.is_object()) return absl::OkStatus();
  const std::string name = TokenizerClassName(config, model_config);
  const auto found = tokenizer.find("model");
  const std::string model = found == tokenizer.end() ? "" : StringMember(*found, "type");
  for (const TokenizerClass& known : kClasses) {
    if (known.name != name || known.model != model) continue;
    BEAMLINE_RETURN_IF_ERROR(CheckReplaced(JsonNode(tokenizer, place)));
    return known.apply(config, tokenizer);
  }
  return absl::OkStatus();
}

absl::Status SetConfiguredTemplate(const TokenizerConfig& config, const json& model_config,
                                   json& tokenizer) {
  const std::string name = TokenizerClassName(config, model_config);
  const auto known = std::ranges::find(kClasses, name, &TokenizerClass::name);
  if (known == kClasses.end() || known->end.empty()) return absl::OkStatus();
  return SetTokensAround(config, known->begin, known->end, tokenizer);
}

absl::Status SetTokensAround(const TokenizerConfig& config, std::string_view begin,
                             std::string_view end, json& tokenizer) {
  const JsonNode settings(config.json, config.place);
  json pieces = json::array(), specials = json::object();  // of one text, which may be A or B
  const auto add = [&](const char* setting, const char* role,
                       std::string_view otherwise) -> absl::Status {
    BEAMLINE_ASSIGN_OR_RETURN(const bool adds, settings.BoolOr(setting, false));
    const std::string content = config.Role(role, otherwise);
    if (!adds || content.empty()) return absl::OkStatus();
    const json id = IdOf(tokenizer, content);
    if (id.is_null()) {
      return settings.Error(
          fmt::format("\"{}\" is true, and the vocabulary has no \"{}\"", setting, content));
    }
    pieces.push_back({{"SpecialToken", {{"id", content}}}});
    specials[content] = {{"ids", json::array({id})}};
    return absl::OkStatus();
  };
  BEAMLINE_RETURN_IF_ERROR(add("add_bos_token", "bos_token", begin));
  pieces.push_back({{"Sequence", {{"id", "A"}}}});
  BEAMLINE_RETURN_IF_ERROR(add("add_eos_token", "eos_token", end));
  json pair = pieces;
  for (json piece : pieces) {
    if (piece.contains("Sequence")) piece["Sequence"]["id"] = "B";
    pair.push_back(std::move(piece));
  }
  tokenizer["post_processor"] = {{"type", "TemplateProcessing"},
                                 {"single", pieces},
                                 {"pair", std::move(pair)},
                                 {"special_tokens", specials}};
  return absl::OkStatus();
}

}  // namespace beamline::text
