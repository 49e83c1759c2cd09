// DeBERTa versions 1, 2 and 3: BERT's layers with disentangled attention. Some models of version 2
// have a convolution after the first layer. Pretraining heads other than the MLM head are ignored.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/layer_names.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// Maximum length if no position table limits it.
constexpr int32_t kMostPositions = 1 << 14;
constexpr int32_t kMostKernelSize = 63;

// What a field holds: a list of words, or a text of words with "|" between them.
std::vector<std::string> Words(const Checkpoint& checkpoint, const char* field,
                               std::initializer_list<std::string_view> accepted,
                               ConfigFields& config) {
  std::vector<std::string> words;
  if (!config.Has(field)) return words;
  if (checkpoint.config()[field].is_string()) {
    std::string text = config.String(field, "");
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    std::erase(text, ' ');
    std::istringstream parts(text);
    for (std::string word; std::getline(parts, word, '|');) words.push_back(word);
  } else {
    words = config.Strings(field);
  }
  for (const std::string& word : words) {
    if (std::ranges::count(accepted, word) > 0) continue;
    std::string list;
    for (const std::string_view name : accepted) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ", name);
    }
    config.Fault(field, "supported are " + list);
  }
  return words;
}

// Which position terms the attention scores have.
struct PositionTypes {
  bool has_keys = false, has_queries = false;  // c2p, p2c
  size_t num_named = 0;
};

PositionTypes ReadPositionTypes(const Checkpoint& checkpoint, ConfigFields& config) {
  const std::vector<std::string> names = Words(checkpoint, "pos_att_type", {"c2p", "p2c"}, config);
  PositionTypes types;
  types.has_keys = std::ranges::count(names, "c2p") > 0;
  types.has_queries = std::ranges::count(names, "p2c") > 0;
  types.num_named = names.size();
  return types;
}

// Differences between the versions, except the projections of attention.
struct Version {
  // Defaults if config.json does not set them.
  int32_t num_layers, hidden_size, num_heads, feed_forward_size, vocab_size;
  bool has_buckets;
};

void ReadSizes(const Version& version, ConfigFields& config, StackSpec& encoder) {
  encoder.num_layers = config.Size("num_hidden_layers", version.num_layers);
  encoder.hidden_size = config.Size("hidden_size", version.hidden_size);
  encoder.num_heads = config.Size("num_attention_heads", version.num_heads);
  encoder.num_kv_heads = encoder.num_heads;
  encoder.head_dim = encoder.hidden_size / encoder.num_heads;
  if (encoder.head_dim * encoder.num_heads != encoder.hidden_size) {
    config.Fault("num_attention_heads", "hidden_size must be a multiple of it");
  }
  encoder.feed_forward_size = config.Size("intermediate_size", version.feed_forward_size);
  encoder.placement = NormPlacement::kPost;
  encoder.norm_epsilon = config.Epsilon("layer_norm_eps", 1e-7f);
  encoder.activation = config.ActivationFunction("hidden_act", "gelu");
  encoder.vocab_size = config.Size("vocab_size", version.vocab_size);
  encoder.num_types = config.Int("type_vocab_size", 0, 1 << 20, 0);
  config.OptionalInt("pad_token_id", -1, encoder.vocab_size - 1);
  const int32_t embedding_size = config.Size("embedding_size", encoder.hidden_size);
  if (embedding_size != encoder.hidden_size) encoder.projected_size = embedding_size;
}

// Reads the largest distance that is distinguished, and the number of distance embeddings.
void ReadDistances(ConfigFields& config, bool has_buckets, StackSpec& encoder) {
  DisentangledSpec& disentangled = encoder.disentangled;
  disentangled.max_distance = config.Int("max_relative_positions", -1, 1 << 20, -1);
  if (disentangled.max_distance < 1) disentangled.max_distance = encoder.max_positions;
  disentangled.span = disentangled.max_distance;
  if (!has_buckets) return;
  const int32_t num_buckets = config.Int("position_buckets", -1, 1 << 16, -1);
  if (num_buckets < 1) return;
  disentangled.has_buckets = true;
  disentangled.span = num_buckets;
  if (num_buckets < 2 || disentangled.max_distance <= num_buckets / 2 + 1) {
    config.Fault("position_buckets",
                 fmt::format("2 or more are expected, and max_relative_positions ({}) above half "
                             "of them and 1",
                             disentangled.max_distance));
  }
}

void ReadPositions(ConfigFields& config, StackSpec& encoder) {
  const bool is_biased = config.Bool("position_biased_input", true);
  encoder.max_positions = is_biased ? config.Size("max_position_embeddings", 512)
                                    : config.Int("max_position_embeddings", 1, kMostPositions, 512);
  encoder.positions = is_biased                      ? PositionKind::kLearned
                      : encoder.disentangled.empty() ? PositionKind::kNone
                                                     : PositionKind::kRelative;
}

void NameEmbeddings(const Checkpoint& checkpoint, const std::string& prefix, ConfigFields& config,
                    TransformerSpec& spec) {
  StackSpec& encoder = *spec.encoder;
  const std::string embeddings = prefix + "embeddings.";
  encoder.token_table = embeddings + "word_embeddings.weight";
  encoder.embedding_norm = NamedNorm(embeddings + "LayerNorm");
  CheckTableRows(checkpoint, encoder.token_table, "vocab_size", encoder.vocab_size, config);
  if (encoder.num_types > 0) encoder.type_table = embeddings + "token_type_embeddings.weight";
  if (encoder.positions == PositionKind::kLearned) {
    encoder.position_table = embeddings + "position_embeddings.weight";
    CheckTableRows(checkpoint, encoder.position_table, "max_position_embeddings",
                   encoder.max_positions, config);
  } else {
    spec.ignored_tensors.push_back(embeddings + "position_embeddings.weight");
  }
  if (encoder.projected_size > 0) {
    encoder.projection = {{embeddings + "embed_proj.weight"}, {}};
    encoder.norms_projected = true;
  }
  spec.ignored_tensors.push_back(embeddings + "position_ids");
}

// Of what the two have alike.
LayerNames DebertaLayers(const std::string& layer) {
  LayerNames names;
  names.attention_output = NamedLinear(layer + "attention.output.dense");
  names.attention_norm = NamedNorm(layer + "attention.output.LayerNorm");
  names.feed_forward_in = NamedLinear(layer + "intermediate.dense");
  names.feed_forward_out = NamedLinear(layer + "output.dense");
  names.feed_forward_norm = NamedNorm(layer + "output.LayerNorm");
  return names;
}

// Projections of version 2. If `shares`, positions use the projections of the content.
void NameProducts(const std::string& self, const PositionTypes& types, bool shares,
                  LayerNames& names) {
  names.qkv = {{self + "query_proj.weight", self + "key_proj.weight", self + "value_proj.weight"},
               {self + "query_proj.bias", self + "key_proj.bias", self + "value_proj.bias"}};
  if (types.has_keys)
    names.position_key = NamedLinear(self + (shares ? "key_proj" : "pos_key_proj"));
  if (types.has_queries) {
    names.position_query = NamedLinear(self + (shares ? "query_proj" : "pos_query_proj"));
  }
}

// Projections of version 1: queries, keys and values in one matrix; keys have no bias.
void NameJoinedProducts(const std::string& self, const PositionTypes& types, LayerNames& names) {
  names.qkv = {{self + "in_proj.weight"}, {self + "q_bias", "", self + "v_bias"}};
  names.qkv.grouped = true;
  if (types.has_keys) names.position_key = {{self + "pos_proj.weight"}, {}};
  if (types.has_queries) names.position_query = NamedLinear(self + "pos_q_proj");
}

void ReadConvolution(const std::string& prefix, ConfigFields& config, StackSpec& encoder) {
  ConvolutionSpec& convolution = encoder.convolution;
  convolution.kernel_size = config.Int("conv_kernel_size", 0, kMostKernelSize, 0);
  if (convolution.kernel_size == 0) return;
  if (convolution.kernel_size % 2 == 0) config.Fault("conv_kernel_size", "odd ones are supported");
  if (config.Int("conv_groups", 1, 1 << 20, 1) != 1) {
    config.Fault("conv_groups", "supported is 1");
  }
  convolution.activation = config.ActivationFunction("conv_act", "tanh");
  convolution.linear = NamedLinear(prefix + "encoder.conv.conv");
  convolution.linear.kernel_size = convolution.kernel_size;
  convolution.norm = NamedNorm(prefix + "encoder.conv.LayerNorm");
}

void SetHeads(const Checkpoint& checkpoint, ConfigFields& config, TransformerSpec& spec) {
  if (IsTokenClassifier(checkpoint)) {
    SetTokenClassifier(checkpoint, config, spec);
  } else if (IsClassifier(checkpoint)) {
    const Activation activation = config.ActivationFunction("pooler_hidden_act", "gelu");
    SetClassifier(checkpoint, "pooler.dense", activation, "classifier", config, spec);
  }
  const bool is_legacy = config.Bool("legacy", true);
  SetMaskHead(checkpoint,
              is_legacy ? MaskHeadNames{.dense = "cls.predictions.transform.dense",
                                        .norm = "cls.predictions.transform.LayerNorm",
                                        .output = "cls.predictions.decoder",
                                        .bias = "cls.predictions.bias"}
                        : MaskHeadNames{.dense = "lm_predictions.lm_head.dense",
                                        .norm = "lm_predictions.lm_head.LayerNorm",
                                        .output = "",
                                        .bias = "lm_predictions.lm_head.bias"},
              spec.encoder->activation, config, spec);
  for (const char* name : {"pooler.*", "cls.*", "lm_predictions.*", "mask_predictions.*"}) {
    spec.ignored_tensors.emplace_back(name);
  }
}

std::string PrefixOf(const Checkpoint& checkpoint) {
  return checkpoint.Contains("deberta.embeddings.word_embeddings.weight") ? "deberta." : "";
}

// Describes what both versions share. num_scores: number of terms of an attention score.
absl::Status DescribeAlike(const Checkpoint& checkpoint, const Version& version,
                           const PositionTypes& types, size_t num_scores, ConfigFields& config,
                           TransformerSpec& spec) {
  const std::string prefix = PrefixOf(checkpoint);
  StackSpec& encoder = spec.encoder.emplace();
  ReadSizes(version, config, encoder);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  encoder.attention_scale =
      1.0f / std::sqrt(static_cast<float>(encoder.head_dim) * static_cast<float>(num_scores));
  const std::string table = prefix + "encoder.rel_embeddings.weight";
  const bool is_relative = config.Bool("relative_attention", false);
  const bool reads_distances = is_relative && (types.has_keys || types.has_queries);
  if (reads_distances) {
    encoder.disentangled.table = table;
  } else if (is_relative) {
    spec.ignored_tensors.push_back(table);
  }
  ReadPositions(config, encoder);
  if (reads_distances) ReadDistances(config, version.has_buckets, encoder);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  if (reads_distances) {
    CheckTableRows(checkpoint, table,
                   encoder.disentangled.has_buckets ? "position_buckets" : "max_relative_positions",
                   encoder.disentangled.num_rows(), config);
  }
  encoder.layers = DebertaLayers(prefix + "encoder.layer.{}.");
  NameEmbeddings(checkpoint, prefix, config, spec);
  spec.vocab_size = encoder.vocab_size;
  SetHeads(checkpoint, config, spec);
  return config.status();
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeDebertaV2(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  if (!IsClassifier(checkpoint)) BEAMLINE_RETURN_IF_ERROR(RefuseOtherHeads(checkpoint));
  const std::string prefix = PrefixOf(checkpoint);
  const PositionTypes types = ReadPositionTypes(checkpoint, config);
  FamilyDescription description;
  TransformerSpec& spec = description.spec;
  const size_t num_scores = size_t{1} + (types.has_keys ? 1 : 0) + (types.has_queries ? 1 : 0);
  constexpr Version kVersion = {24, 1536, 24, 6144, 128100, /*has_buckets=*/true};
  BEAMLINE_RETURN_IF_ERROR(DescribeAlike(checkpoint, kVersion, types, num_scores, config, spec));
  StackSpec& encoder = *spec.encoder;
  for (const auto& [name, size] : {std::pair("attention_head_size", encoder.head_dim),
                                   std::pair("pooler_hidden_size", encoder.hidden_size)}) {
    if (config.Size(name, size) != size) config.Fault(name, fmt::format("supported is {}", size));
  }
  const bool is_relative = !encoder.disentangled.empty();
  NameProducts(prefix + "encoder.layer.{}.attention.self.", is_relative ? types : PositionTypes(),
               config.Bool("share_att_key", false), encoder.layers);
  const std::vector<std::string> norms =
      Words(checkpoint, "norm_rel_ebd", {"none", "layer_norm"}, config);
  const std::string norm = prefix + "encoder.LayerNorm";
  if (is_relative && std::ranges::count(norms, "layer_norm") > 0) {
    encoder.disentangled.table_norm = NamedNorm(norm);
  } else {
    spec.ignored_tensors.push_back(norm + ".*");
  }
  ReadConvolution(prefix, config, encoder);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  return description;
}

absl::StatusOr<FamilyDescription> DescribeDeberta(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  if (!IsClassifier(checkpoint)) BEAMLINE_RETURN_IF_ERROR(RefuseOtherHeads(checkpoint));
  const std::string prefix = PrefixOf(checkpoint);
  const PositionTypes types = ReadPositionTypes(checkpoint, config);
  FamilyDescription description;
  TransformerSpec& spec = description.spec;
  constexpr Version kVersion = {12, 768, 12, 3072, 50265, /*has_buckets=*/false};
  BEAMLINE_RETURN_IF_ERROR(
      DescribeAlike(checkpoint, kVersion, types, 1 + types.num_named, config, spec));
  config.RequireBool("talking_head", false, false);
  const StackSpec& encoder = *spec.encoder;
  if (config.Size("pooler_hidden_size", encoder.hidden_size) != encoder.hidden_size) {
    config.Fault("pooler_hidden_size", fmt::format("supported is {}", encoder.hidden_size));
  }
  NameJoinedProducts(prefix + "encoder.layer.{}.attention.self.",
                     encoder.disentangled.empty() ? PositionTypes() : types, spec.encoder->layers);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  return description;
}

}  // namespace beamline
