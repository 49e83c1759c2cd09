// ALBERT: BERT's layers with shared weights, after embeddings that a matmul widens to the hidden
// size. The pretraining heads are ignored.
#include <cmath>
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/layer_names.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// Far above any real model; protects against a damaged config.json.
constexpr int32_t kMostLayers = 1 << 12;
constexpr int32_t kMostInnerLayers = 1 << 6;

LayerNames AlbertLayers(const std::string& prefix) {
  const std::string layer = prefix + "encoder.albert_layer_groups.{}.";
  const std::string attention = layer + "attention.";
  LayerNames names;
  names.qkv = {{attention + "query.weight", attention + "key.weight", attention + "value.weight"},
               {attention + "query.bias", attention + "key.bias", attention + "value.bias"}};
  names.attention_output = NamedLinear(attention + "dense");
  names.attention_norm = NamedNorm(attention + "LayerNorm");
  names.feed_forward_in = NamedLinear(layer + "ffn");
  names.feed_forward_out = NamedLinear(layer + "ffn_output");
  names.feed_forward_norm = NamedNorm(layer + "full_layer_layer_norm");
  return names;
}

// num_hidden_layers passes; each runs all layers of the group to which its index belongs.
void ReadLayers(ConfigFields& config, StackSpec& encoder) {
  const int32_t num_turns = config.Int("num_hidden_layers", 1, kMostLayers, 12);
  const int32_t num_groups = config.Int("num_hidden_groups", 1, kMostLayers, 1);
  const int32_t num_inner = config.Int("inner_group_num", 1, kMostInnerLayers, 1);
  if (num_groups > num_turns) {
    config.Fault("num_hidden_groups",
                 fmt::format("at most num_hidden_layers, {}, is expected", num_turns));
    return;
  }
  const double turns_of_group = static_cast<double>(num_turns) / num_groups;
  for (int32_t turn = 0; turn < num_turns; ++turn) {
    const auto group = static_cast<int32_t>(turn / turns_of_group);
    for (int32_t inner = 0; inner < num_inner; ++inner) {
      encoder.layer_ids.push_back(fmt::format("{}.albert_layers.{}", group, inner));
    }
  }
  encoder.num_layers = num_turns * num_inner;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeAlbert(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  if (!IsClassifier(checkpoint)) BEAMLINE_RETURN_IF_ERROR(RefuseOtherHeads(checkpoint));
  FamilyDescription description;
  StackSpec& encoder = description.spec.encoder.emplace();
  ReadLayers(config, encoder);
  encoder.hidden_size = config.Size("hidden_size", 4096);
  encoder.projected_size = config.Size("embedding_size", 128);
  encoder.num_heads = config.Size("num_attention_heads", 64);
  encoder.num_kv_heads = encoder.num_heads;
  encoder.head_dim = encoder.hidden_size / encoder.num_heads;
  if (encoder.head_dim * encoder.num_heads != encoder.hidden_size) {
    config.Fault("num_attention_heads", "hidden_size must be a multiple of it");
  }
  encoder.feed_forward_size = config.Size("intermediate_size", 16384);
  encoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(encoder.head_dim));
  encoder.placement = NormPlacement::kPost;
  encoder.norm_epsilon = config.Epsilon("layer_norm_eps", 1e-12f);
  encoder.activation = config.ActivationFunction("hidden_act", "gelu_new");
  encoder.positions = PositionKind::kLearned;
  encoder.max_positions = config.Size("max_position_embeddings", 512);
  encoder.vocab_size = config.Size("vocab_size", 30000);
  encoder.num_types = config.Size("type_vocab_size", 2);
  config.RequireString("position_embedding_type", "absolute", "absolute");
  config.OptionalInt("pad_token_id", -1, encoder.vocab_size - 1);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string embeddings = "embeddings.word_embeddings.weight";
  const std::string prefix = checkpoint.Contains("albert." + embeddings) ? "albert." : "";
  encoder.token_table = prefix + embeddings;
  encoder.position_table = prefix + "embeddings.position_embeddings.weight";
  encoder.type_table = prefix + "embeddings.token_type_embeddings.weight";
  encoder.embedding_norm = NamedNorm(prefix + "embeddings.LayerNorm");
  encoder.projection = NamedLinear(prefix + "encoder.embedding_hidden_mapping_in");
  encoder.layers = AlbertLayers(prefix);
  CheckTableRows(checkpoint, encoder.token_table, "vocab_size", encoder.vocab_size, config);
  CheckTableRows(checkpoint, encoder.position_table, "max_position_embeddings",
                 encoder.max_positions, config);
  TransformerSpec& spec = description.spec;
  spec.vocab_size = encoder.vocab_size;
  spec.ignored_tensors = {prefix + "embeddings.position_ids", prefix + "embeddings.token_type_ids",
                          prefix + "pooler.*", "predictions.*", "sop_classifier.*"};
  if (IsTokenClassifier(checkpoint)) {
    SetTokenClassifier(checkpoint, config, spec);
  } else if (IsClassifier(checkpoint)) {
    SetClassifier(checkpoint, prefix + "pooler", Activation::kTanh, "classifier", config, spec);
  }
  SetMaskHead(checkpoint,
              {.dense = "predictions.dense",
               .norm = "predictions.LayerNorm",
               .output = "predictions.decoder",
               .bias = "predictions.bias"},
              encoder.activation, config, spec);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  return description;
}

}  // namespace beamline
