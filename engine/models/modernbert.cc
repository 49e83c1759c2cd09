// ModernBERT: a pre-norm encoder with rotary positions, gated feed-forwards and, in most layers, a
// window on both sides of a query. The pretraining head is ignored.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/layer_names.h"
#include "engine/models/rotary_config.h"
#include "fmt/format.h"

namespace beamline {
namespace {

LayerNames ModernBertLayers(const std::string& prefix, ConfigFields& config, bool norm_bias) {
  const std::string layer = prefix + "layers.{}.";
  const bool attention_bias = config.Bool("attention_bias", false);
  const bool mlp_bias = config.Bool("mlp_bias", false);
  LayerNames names;
  names.attention_norm = NamedNorm(layer + "attn_norm", norm_bias);
  names.qkv = NamedLinear(layer + "attn.Wqkv", attention_bias);
  names.attention_output = NamedLinear(layer + "attn.Wo", attention_bias);
  names.feed_forward_norm = NamedNorm(layer + "mlp_norm", norm_bias);
  names.feed_forward_in = NamedLinear(layer + "mlp.Wi", mlp_bias);
  names.feed_forward_out = NamedLinear(layer + "mlp.Wo", mlp_bias);
  return names;
}

// Sets window and angles of each layer: from layer_types, else from global_attn_every_n_layers.
void ReadLayerTypes(ConfigFields& config, StackSpec& encoder) {
  std::vector<std::string> types = LayerTypes(config, encoder.num_layers);
  const int32_t every = config.Size("global_attn_every_n_layers", 3);
  // local_attention counts the keys on both sides, half of them on each.
  const int32_t both = config.Size("local_attention", 128);
  // sliding_window counts the keys on one side, and overrides local_attention.
  if (config.IsNull("sliding_window")) config.Fault("sliding_window", "a number is expected");
  const int32_t window = 1 + config.Count("sliding_window", both / 2);
  bool is_shorter = false;
  for (int32_t layer = 0; layer < encoder.num_layers && config.status().ok(); ++layer) {
    const bool windowed = types.empty() ? layer % every != 0 : types[layer] == kSlidingAttention;
    encoder.attention_windows.push_back(windowed && window < encoder.max_positions ? window : 0);
    is_shorter = is_shorter || encoder.attention_windows.back() > 0;
    encoder.layer_rotary.push_back(windowed ? LayerRotary::kLocal : LayerRotary::kMain);
  }
  if (!is_shorter) encoder.attention_windows.clear();
}

void ReadAngles(ConfigFields& config, StackSpec& encoder) {
  if (config.Has("rope_scaling")) {
    config.Fault("rope_scaling", "none is expected; rope_parameters are by layer type");
  }
  encoder.rotary = ReadRotary(
      config, encoder.head_dim, encoder.max_positions,
      {.layer_type = kFullAttention, .theta_name = "global_rope_theta", .theta = 160000.0});
  encoder.local_rotary = ReadRotary(
      config, encoder.head_dim, encoder.max_positions,
      {.layer_type = kSlidingAttention, .theta_name = "local_rope_theta", .theta = 10000.0});
}

void AddModernBertHead(const Checkpoint& checkpoint, bool norm_bias, ConfigFields& config,
                       TransformerSpec& spec) {
  const Activation activation = config.ActivationFunction("classifier_activation", "gelu");
  SetClassifier(checkpoint, "head.dense", activation, "classifier", config, spec);
  ClassifierSpec& classifier = *spec.classifier;
  if (!config.Bool("classifier_bias", false)) {
    std::erase(spec.ignored_tensors, classifier.dense.biases.front());
    classifier.dense.biases.clear();
  }
  classifier.norm = NamedNorm("head.norm", norm_bias);
  classifier.norm_epsilon = spec.encoder->norm_epsilon;
  spec.ignored_tensors.push_back(classifier.norm.gain);
  if (norm_bias) spec.ignored_tensors.push_back(classifier.norm.bias);
  classifier.per_token = IsTokenClassifier(checkpoint);
  const std::string pooling = config.String("classifier_pooling", "cls");
  if (pooling == "mean") {
    classifier.pooling = Pooling::kMean;
  } else if (pooling != "cls") {
    config.Fault("classifier_pooling", "supported are cls and mean");
  }
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeModernBert(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  if (!IsClassifier(checkpoint)) BEAMLINE_RETURN_IF_ERROR(RefuseOtherHeads(checkpoint));
  FamilyDescription description;
  StackSpec& encoder = description.spec.encoder.emplace();
  encoder.num_layers = config.Size("num_hidden_layers", 22);
  encoder.hidden_size = config.Size("hidden_size", 768);
  encoder.num_heads = config.Size("num_attention_heads", 12);
  encoder.num_kv_heads = encoder.num_heads;
  encoder.head_dim = encoder.hidden_size / encoder.num_heads;
  if (encoder.head_dim * encoder.num_heads != encoder.hidden_size) {
    config.Fault("num_attention_heads", "hidden_size must be a multiple of it");
  }
  encoder.feed_forward_size = config.Size("intermediate_size", 1152);
  encoder.gated = true;
  encoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(encoder.head_dim));
  encoder.placement = NormPlacement::kPre;
  encoder.first_is_normed = false;  // the norm of the embeddings is directly before it
  encoder.norm_epsilon = config.Epsilon("norm_eps", 1e-5f);
  encoder.activation = config.ActivationFunction("hidden_activation", "gelu");
  encoder.positions = PositionKind::kRotary;
  encoder.max_positions = config.Size("max_position_embeddings", 8192);
  encoder.vocab_size = config.Size("vocab_size", 50368);
  config.OptionalInt("pad_token_id", -1, encoder.vocab_size - 1);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  ReadLayerTypes(config, encoder);
  ReadAngles(config, encoder);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string embeddings = "embeddings.tok_embeddings.weight";
  const std::string prefix = checkpoint.Contains("model." + embeddings) ? "model." : "";
  const bool norm_bias = config.Bool("norm_bias", false);
  encoder.token_table = prefix + embeddings;
  encoder.embedding_norm = NamedNorm(prefix + "embeddings.norm", norm_bias);
  encoder.layers = ModernBertLayers(prefix, config, norm_bias);
  encoder.final_norm = NamedNorm(prefix + "final_norm", norm_bias);
  CheckTableRows(checkpoint, encoder.token_table, "vocab_size", encoder.vocab_size, config);
  TransformerSpec& spec = description.spec;
  spec.vocab_size = encoder.vocab_size;
  if (IsClassifier(checkpoint)) {
    AddModernBertHead(checkpoint, norm_bias, config, spec);
  } else {
    spec.ignored_tensors = {"head.*", "decoder.*"};
    SetMaskHead(checkpoint,
                {.dense = "head.dense",
                 .norm = "head.norm",
                 .output = "decoder",
                 .biases_may_miss = true,
                 .has_dense_bias = config.Bool("classifier_bias", false),
                 .has_norm_bias = norm_bias,
                 .has_output_bias = config.Bool("decoder_bias", true)},
                config.ActivationFunction("classifier_activation", "gelu"), config, spec);
  }
  BEAMLINE_RETURN_IF_ERROR(config.status());
  return description;
}

}  // namespace beamline
