#include "engine/models/models.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/models/classifier_config.h"
#include "engine/models/config_fields.h"
#include "engine/models/decoder_classifier.h"
#include "engine/models/encoding_defaults.h"
#include "engine/models/families.h"
#include "engine/models/generation_defaults.h"
#include "fmt/format.h"

namespace beamline {
namespace {

struct Family {
  std::string_view model_type;  // in config.json
  absl::StatusOr<FamilyDescription> (*describe)(const Checkpoint& checkpoint);
  // Accepted architectures of config.json: classes of transformers whose answers Beamline computes.
  // A class with another task's head would be served without it, so it is rejected.
  std::array<std::string_view, 5> architectures;
  // Decoders: the class without a head, whose hidden states serve as embeddings. Empty: embeddings
  // are not served.
  std::string_view embedder = {};
  DecoderHeads heads = {};  // of decoders with classifiers in `architectures`
};

// Classes in transformers with heads of their own use this name for token classification.
constexpr DecoderHeads kOlderHeads = {.tokens = "classifier"};
constexpr DecoderHeads kGemmaHeads = {.padding_id = 0};

// Every family that Beamline serves.
constexpr std::array<Family, 41> kFamilies = {{
    {"bert",
     DescribeBert,
     {"BertModel", "BertForMaskedLM", "BertForPreTraining", "BertForSequenceClassification",
      "BertForTokenClassification"}},
    {"roberta",
     DescribeRoberta,
     {"RobertaModel", "RobertaForMaskedLM", "RobertaForSequenceClassification",
      "RobertaForTokenClassification"}},
    {"xlm-roberta",
     DescribeRoberta,
     {"XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification",
      "XLMRobertaForTokenClassification"}},
    {"electra",
     DescribeElectra,
     {"ElectraModel", "ElectraForPreTraining", "ElectraForMaskedLM",
      "ElectraForSequenceClassification", "ElectraForTokenClassification"}},
    {"distilbert",
     DescribeDistilBert,
     {"DistilBertModel", "DistilBertForMaskedLM", "DistilBertForSequenceClassification",
      "DistilBertForTokenClassification"}},
    {"albert",
     DescribeAlbert,
     {"AlbertModel", "AlbertForMaskedLM", "AlbertForPreTraining", "AlbertForSequenceClassification",
      "AlbertForTokenClassification"}},
    {"mpnet",
     DescribeMpNet,
     {"MPNetModel", "MPNetForMaskedLM", "MPNetForSequenceClassification",
      "MPNetForTokenClassification"}},
    {"modernbert",
     DescribeModernBert,
     {"ModernBertModel", "ModernBertForMaskedLM", "ModernBertForSequenceClassification",
      "ModernBertForTokenClassification"}},
    {"nomic_bert",
     DescribeNomicBert,
     {"NomicBertModel", "NomicBertForMaskedLM", "NomicBertForSequenceClassification",
      "NomicBertForTokenClassification"}},
    {"deberta-v2",
     DescribeDebertaV2,
     {"DebertaV2Model", "DebertaV2ForMaskedLM", "DebertaV2ForSequenceClassification",
      "DebertaV2ForTokenClassification"}},
    {"deberta",
     DescribeDeberta,
     {"DebertaModel", "DebertaForMaskedLM", "DebertaForSequenceClassification",
      "DebertaForTokenClassification"}},
    {"marian", DescribeMarian, {"MarianMTModel", "MarianModel"}},
    {"bart", DescribeBart, {"BartForConditionalGeneration", "BartModel"}},
    {"mbart", DescribeMBart, {"MBartForConditionalGeneration", "MBartModel"}},
    {"pegasus", DescribePegasus, {"PegasusForConditionalGeneration", "PegasusModel"}},
    {"m2m_100", DescribeM2M100, {"M2M100ForConditionalGeneration", "M2M100Model"}},
    {"t5", DescribeT5, {"T5ForConditionalGeneration", "T5Model", "T5WithLMHeadModel"}},
    {"mt5", DescribeMt5, {"MT5ForConditionalGeneration", "MT5Model"}},
    {"gpt2",
     DescribeGpt2,
     {"GPT2LMHeadModel", "GPT2Model", "GPT2ForSequenceClassification",
      "GPT2ForTokenClassification"},
     {},
     kOlderHeads},
    {"llama",
     DescribeLlama,
     {"LlamaForCausalLM", "LlamaForSequenceClassification", "LlamaForTokenClassification"},
     "LlamaModel"},
    {"mistral",
     DescribeMistral,
     {"MistralForCausalLM", "MistralForSequenceClassification", "MistralForTokenClassification"},
     "MistralModel"},
    {"qwen2",
     DescribeQwen2,
     {"Qwen2ForCausalLM", "Qwen2ForSequenceClassification", "Qwen2ForTokenClassification"},
     "Qwen2Model"},
    {"qwen3",
     DescribeQwen3,
     {"Qwen3ForCausalLM", "Qwen3ForSequenceClassification", "Qwen3ForTokenClassification"},
     "Qwen3Model"},
    {"mixtral",
     DescribeMixtral,
     {"MixtralForCausalLM", "MixtralForSequenceClassification", "MixtralForTokenClassification"}},
    {"qwen2_moe",
     DescribeQwen2Moe,
     {"Qwen2MoeForCausalLM", "Qwen2MoeForSequenceClassification",
      "Qwen2MoeForTokenClassification"}},
    {"qwen3_moe",
     DescribeQwen3Moe,
     {"Qwen3MoeForCausalLM", "Qwen3MoeForSequenceClassification",
      "Qwen3MoeForTokenClassification"}},
    {"smollm3",
     DescribeSmolLm3,
     {"SmolLM3ForCausalLM", "SmolLM3ForSequenceClassification", "SmolLM3ForTokenClassification"},
     {},
     {.padding_id = 128004}},
    {"olmo",
     DescribeOlmo,
     {"OlmoForCausalLM", "OlmoForSequenceClassification"},
     {},
     {.padding_id = 1}},
    {"olmoe", DescribeOlmoe, {"OlmoeForCausalLM"}},
    {"olmo2",
     DescribeOlmo2,
     {"Olmo2ForCausalLM", "Olmo2ForSequenceClassification"},
     {},
     {.padding_id = 1}},
    {"phi3",
     DescribePhi3,
     {"Phi3ForCausalLM", "Phi3ForSequenceClassification", "Phi3ForTokenClassification"},
     {},
     {.padding_id = 32000}},
    {"starcoder2",
     DescribeStarcoder2,
     {"Starcoder2ForCausalLM", "Starcoder2ForSequenceClassification",
      "Starcoder2ForTokenClassification"}},
    {"gpt_neox",
     DescribeGptNeoX,
     {"GPTNeoXForCausalLM", "GPTNeoXForSequenceClassification", "GPTNeoXForTokenClassification"},
     {},
     kOlderHeads},
    {"gptj", DescribeGptJ, {"GPTJForCausalLM", "GPTJForSequenceClassification"}},
    {"gemma",
     DescribeGemma,
     {"GemmaForCausalLM", "GemmaForSequenceClassification", "GemmaForTokenClassification"},
     {},
     kGemmaHeads},
    {"gemma2",
     DescribeGemma2,
     {"Gemma2ForCausalLM", "Gemma2ForSequenceClassification", "Gemma2ForTokenClassification"},
     {},
     kGemmaHeads},
    {"gemma3_text",
     DescribeGemma3,
     {"Gemma3ForCausalLM", "Gemma3TextForSequenceClassification"},
     {},
     kGemmaHeads},
    {"opt", DescribeOpt, {"OPTForCausalLM", "OPTForSequenceClassification"}, {}, {.padding_id = 1}},
    {"gpt_neo",
     DescribeGptNeo,
     {"GPTNeoForCausalLM", "GPTNeoForSequenceClassification", "GPTNeoForTokenClassification"},
     {},
     kOlderHeads},
    {"falcon",
     DescribeFalcon,
     {"FalconForCausalLM", "FalconForSequenceClassification", "FalconForTokenClassification"},
     {},
     kOlderHeads},
    {"bloom",
     DescribeBloom,
     {"BloomForCausalLM", "BloomForSequenceClassification", "BloomForTokenClassification"},
     {},
     kOlderHeads},
}};

template <typename Names>
std::string Listed(const Names& names) {
  std::string list;
  for (const std::string_view name : names) {
    if (!name.empty()) list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
  }
  return list;
}

absl::StatusOr<const Family*> FindFamily(const nlohmann::json& object) {
  std::array<std::string_view, kFamilies.size()> known;
  std::ranges::transform(kFamilies, known.begin(), &Family::model_type);
  ConfigFields config(object, "config.json");
  const std::string model_type = config.String("model_type", "");
  if (!config.Has("model_type")) config.Fault("model_type", "served are " + Listed(known));
  BEAMLINE_RETURN_IF_ERROR(config.status());
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return &family;
  }
  // Shortened so that the list of families fits into the error line.
  constexpr size_t kMostBytes = 48;
  return absl::UnimplementedError(fmt::format("config.json: model_type is \"{}\"; served are {}",
                                              Shorten(model_type, kMostBytes), Listed(known)));
}

absl::Status CheckArchitectures(const nlohmann::json& config, const Family& family) {
  const auto names = config.find("architectures");
  if (names == config.end() || names->is_null()) return absl::OkStatus();
  std::vector<std::string_view> served(family.architectures.begin(), family.architectures.end());
  served.push_back(family.embedder);
  const auto is_served = [&](const nlohmann::json& name) {
    return name.is_string() && !name.get_ref<const std::string&>().empty() &&
           std::ranges::count(served, name.get_ref<const std::string&>()) > 0;
  };
  if (names->is_array() && std::ranges::all_of(*names, is_served)) return absl::OkStatus();
  return absl::UnimplementedError(fmt::format("config.json: architectures is {}; served are {}",
                                              names->dump(), Listed(served)));
}

// The family of config.json, if it is served.
absl::StatusOr<const Family*> ServedFamily(const nlohmann::json& object) {
  BEAMLINE_ASSIGN_OR_RETURN(const Family* const family, FindFamily(object));
  BEAMLINE_RETURN_IF_ERROR(CheckArchitectures(object, *family));
  return family;
}

std::string Architecture(const nlohmann::json& config) {
  const auto field = config.find("architectures");
  if (field == config.end() || !field->is_array() || field->empty()) return "";
  return field->front().is_string() ? field->front().get<std::string>() : "";
}

// Turns a decoder into an encoder if the folder is an embedder: it has sentence-transformers'
// modules.json, or its architecture has no head.
absl::Status BecomeEmbedder(const Checkpoint& checkpoint, const Family& family,
                            TransformerSpec& spec) {
  if (spec.encoder.has_value() || !spec.decoder.has_value()) return absl::OkStatus();
  const bool has_modules = HasModules(checkpoint);
  if (family.embedder.empty()) {
    if (!has_modules) return absl::OkStatus();
    std::vector<std::string_view> embedders;
    for (const Family& known : kFamilies) {
      if (!known.embedder.empty()) embedders.push_back(known.model_type);
    }
    return absl::UnimplementedError(
        fmt::format("modules.json: sentence-transformers' folders of model_type {} are not served; "
                    "of decoders those of {} are",
                    family.model_type, Listed(embedders)));
  }
  if (!has_modules && Architecture(checkpoint.config()) != family.embedder) {
    return absl::OkStatus();
  }
  spec.encoder = std::exchange(spec.decoder, std::nullopt);
  spec.head.clear();
  spec.ignored_tensors.emplace_back("lm_head.weight");
  return absl::OkStatus();
}

// Prepends the folder to messages that name a file in it.
absl::Status InFolder(const Checkpoint& checkpoint, const absl::Status& status) {
  if (status.ok() || status.message().substr(0, checkpoint.folder().size()) == checkpoint.folder())
    return status;
  return absl::Status(status.code(), fmt::format("{}/{}", checkpoint.folder(),
                                                 std::string_view(status.message().data(),
                                                                  status.message().size())));
}

// transformers 5 reads is_causal for every family that has no mask code of its own. true makes an
// encoder causal; any other value makes a decoder bidirectional. How this combines with padding and
// attention kernels is undefined, so both are errors at load.
absl::Status CheckCausal(const Checkpoint& checkpoint, std::string_view model_type,
                         const TransformerSpec& spec) {
  constexpr std::array<std::string_view, 4> kOfOwnMasks = {"mpnet", "deberta", "deberta-v2",
                                                           "gpt_neo"};
  if (std::ranges::count(kOfOwnMasks, model_type) > 0) return absl::OkStatus();
  ConfigFields config(checkpoint.config(), "config.json");
  const bool is_causal = spec.decoder.has_value();
  const bool says_null = config.IsNull("is_causal");
  if (is_causal && spec.encoder.has_value()) {
    if (config.Has("is_causal") || says_null) {
      config.Fault("is_causal", "none is expected of an encoder-decoder");
    }
    return config.status();
  }
  if (is_causal && says_null) config.Fault("is_causal", "only true is supported");
  config.RequireBool("is_causal", is_causal, is_causal);
  return config.status();
}

absl::StatusOr<ModelDescription> Describe(const Checkpoint& checkpoint) {
  BEAMLINE_ASSIGN_OR_RETURN(const Family* const served, ServedFamily(checkpoint.config()));
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription family, served->describe(checkpoint));
  BEAMLINE_RETURN_IF_ERROR(CheckCausal(checkpoint, served->model_type, family.spec));

  ModelDescription description;
  description.spec = std::move(family.spec);
  const bool is_decoder =
      description.spec.decoder.has_value() && !description.spec.encoder.has_value();
  if (is_decoder && IsClassifier(checkpoint)) {
    BEAMLINE_RETURN_IF_ERROR(
        BecomeClassifier(checkpoint, served->heads, description.spec, description.classifying));
  } else if (is_decoder) {
    BEAMLINE_RETURN_IF_ERROR(BecomeEmbedder(checkpoint, *served, description.spec));
  }
  description.spec.architecture = Architecture(checkpoint.config());
  if (description.spec.decoder.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(
        description.generation,
        ReadGenerationDefaults(checkpoint, description.spec, std::move(family.generation)));
  } else if (description.spec.classifier.has_value()) {
    BEAMLINE_RETURN_IF_ERROR(
        ReadClassifyDefaults(checkpoint, description.classifying, description.encoding));
  } else {
    BEAMLINE_ASSIGN_OR_RETURN(description.encoding,
                              ReadEncodingDefaults(checkpoint, *description.spec.encoder));
  }
  return description;
}

// Steps are sized for all positions.
constexpr int32_t kMostPositionsByWord = 1 << 14;

// Whether the positions are limited only by a number in config.json. This holds if only the
// distance between tokens matters, and it is defined for any distance.
bool EndsByWordAlone(const std::optional<StackSpec>& stack) {
  return !stack.has_value() || stack->positions == PositionKind::kRelative ||
         stack->positions == PositionKind::kAlibi;
}

// Applies the operator's limit: shorter than the checkpoint's positions, or longer if these are
// only a number in config.json.
absl::Status LimitLength(int32_t max_model_len, TransformerSpec& spec) {
  if (max_model_len == 0) return absl::OkStatus();
  int32_t longest = 0;
  for (const auto& stack : {spec.encoder, spec.decoder}) {
    if (stack.has_value()) longest = std::max(longest, stack->max_positions);
  }
  const bool may_be_longer = EndsByWordAlone(spec.encoder) && EndsByWordAlone(spec.decoder);
  const int32_t most = may_be_longer ? std::max(longest, kMostPositionsByWord) : longest;
  if (max_model_len < 2 || max_model_len > most) {
    return FieldError(
        "max_model_len", fmt::to_string(max_model_len),
        fmt::format("0, or 2 to {}{}", most, may_be_longer ? "" : ", the checkpoint's positions"));
  }
  for (std::optional<StackSpec>* stack : {&spec.encoder, &spec.decoder}) {
    if (may_be_longer && stack->has_value()) (*stack)->max_positions = max_model_len;
  }
  for (std::optional<StackSpec>* stack : {&spec.encoder, &spec.decoder}) {
    if (!stack->has_value() || (*stack)->max_positions <= max_model_len) continue;
    (*stack)->unused_positions = (*stack)->max_positions - max_model_len;
    (*stack)->max_positions = max_model_len;
  }
  return absl::OkStatus();
}

// Drops the angles for lengths that no sequence can reach, so that no table is built for them.
void DropUnusedAngles(TransformerSpec& spec) {
  for (std::optional<StackSpec>* stack : {&spec.encoder, &spec.decoder}) {
    if (!stack->has_value()) continue;
    RotarySpec& rotary = (*stack)->rotary;
    if ((*stack)->max_positions > rotary.original_positions) continue;
    rotary.original_positions = 0;
    rotary.long_frequencies.clear();
  }
}

}  // namespace

absl::Status CheckFamily(const nlohmann::json& config) { return ServedFamily(config).status(); }

absl::StatusOr<ModelDescription> DescribeModel(const Checkpoint& checkpoint,
                                               int32_t max_model_len) {
  auto description = Describe(checkpoint);
  if (!description.ok()) return InFolder(checkpoint, description.status());
  BEAMLINE_RETURN_IF_ERROR(LimitLength(max_model_len, description->spec));
  DropUnusedAngles(description->spec);
  return description;
}

}  // namespace beamline
