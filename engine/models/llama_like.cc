#include "engine/models/llama_like.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/rotary_config.h"
#include "engine/models/shared_tables.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr int32_t kDefaultMaxWindowLayers = 28;

LayerNames LlamaLayers(const std::string& layer, const LlamaLike& family, bool attention_bias,
                       bool mlp_bias) {
  const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
  const bool qkv_bias =
      attention_bias || family.attention_biases == AttentionBiases::kQueryKeyValue;
  LayerNames names;
  names.attention_norm = {layer + "input_layernorm.weight", ""};
  names.qkv = Stacked(attention, {"q_proj", "k_proj", "v_proj"}, qkv_bias);
  names.attention_output = Stacked(attention, {"o_proj"}, attention_bias);
  if (family.has_head_norms) {
    names.query_norm = {attention + "q_norm.weight", ""};
    names.key_norm = {attention + "k_norm.weight", ""};
  }
  names.feed_forward_norm = {layer + "post_attention_layernorm.weight", ""};
  names.feed_forward_in = Stacked(mlp, {"gate_proj", "up_proj"}, mlp_bias);
  names.feed_forward_out = Stacked(mlp, {"down_proj"}, mlp_bias);
  return names;
}

// Sizes of heads, where null and silence differ.
void ReadLlamaHeads(const LlamaLike& family, ConfigFields& config, StackSpec& decoder) {
  decoder.num_heads = config.Size("num_attention_heads", family.num_heads);
  const bool as_many = config.IsNull("num_key_value_heads") || !family.num_key_value_heads;
  decoder.num_kv_heads =
      config.Size("num_key_value_heads", as_many ? decoder.num_heads : *family.num_key_value_heads);
  if (decoder.num_heads % decoder.num_kv_heads != 0) {
    config.Fault(
        "num_key_value_heads",
        fmt::format("a divisor of num_attention_heads, {}, is expected", decoder.num_heads));
  }
  const int32_t quotient = decoder.hidden_size / decoder.num_heads;
  decoder.head_dim = config.Size("head_dim", family.head_dim.value_or(std::max(quotient, 1)));
  if (!config.Has("head_dim") && !family.head_dim.has_value() &&
      quotient * decoder.num_heads != decoder.hidden_size) {
    config.Fault("num_attention_heads", "hidden_size must be a multiple of it");
  }
}

// Whether each layer uses a window of `size`; 0: no window.
std::vector<bool> WindowedOnes(const LlamaLike& family, ConfigFields& config, int32_t num_layers,
                               int32_t size) {
  const bool as_configured = family.windows == WindowedLayers::kAsConfigured;
  const bool by_pattern = family.windows == WindowedLayers::kByPattern;
  const int32_t first_windowed =
      as_configured ? config.Int("max_window_layers", 0, 1 << 20, kDefaultMaxWindowLayers) : 0;
  const int32_t pattern =
      by_pattern ? config.Size("sliding_window_pattern", family.window_pattern) : num_layers + 1;
  const std::vector<std::string> types = LayerTypes(config, num_layers);
  std::vector<bool> windowed_ones;
  for (int32_t layer = 0; layer < num_layers && config.status().ok(); ++layer) {
    const bool by_default = size > 0 && layer >= first_windowed && (layer + 1) % pattern != 0;
    const bool windowed = types.empty() ? by_default : types[layer] == kSlidingAttention;
    if (windowed != by_default && ((!as_configured && !by_pattern) || size == 0)) {
      config.Fault("layer_types", fmt::format("layer {} attends {} here", layer,
                                              by_default ? "within sliding_window" : "to all"));
    }
    windowed_ones.push_back(windowed);
  }
  return windowed_ones;
}

// Sets windows, none where none is shorter than the longest sequence, and the rotary of each layer.
void ReadLlamaWindows(const LlamaLike& family, ConfigFields& config, StackSpec& decoder) {
  const bool used = family.windows == WindowedLayers::kAsConfigured
                        ? config.Bool("use_sliding_window", false)
                        : family.windows != WindowedLayers::kNone;
  const bool has_window = config.Has("sliding_window") ||
                          (family.sliding_window > 0 && !config.IsNull("sliding_window"));
  const int32_t size =
      used && has_window ? config.Size("sliding_window", family.sliding_window) : 0;
  bool is_shorter = false;
  for (const bool windowed : WindowedOnes(family, config, decoder.num_layers, size)) {
    decoder.attention_windows.push_back(windowed && size < decoder.max_positions ? size : 0);
    is_shorter = is_shorter || decoder.attention_windows.back() > 0;
    if (family.local_rotary.has_value()) {
      decoder.layer_rotary.push_back(windowed ? LayerRotary::kLocal : LayerRotary::kMain);
    }
  }
  if (!is_shorter) decoder.attention_windows.clear();
  if (family.local_rotary.has_value()) {
    decoder.local_rotary =
        ReadRotary(config, decoder.head_dim, decoder.max_positions, *family.local_rotary);
  }
}

std::string StackPrefix(const Checkpoint& checkpoint) {
  return checkpoint.Contains("embed_tokens.weight") ? "" : "model.";
}

}  // namespace

LinearNames Stacked(const std::string& prefix, const std::vector<std::string>& parts,
                    bool has_bias) {
  LinearNames names;
  for (const std::string& part : parts) {
    names.weights.push_back(prefix + part + ".weight");
    if (has_bias) names.biases.push_back(prefix + part + ".bias");
  }
  return names;
}

std::string LayerPrefix(const Checkpoint& checkpoint) {
  return StackPrefix(checkpoint) + "layers.{}.";
}

absl::StatusOr<FamilyDescription> DescribeLlamaLike(const Checkpoint& checkpoint,
                                                    const LlamaLike& family) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.RequireBool("is_encoder_decoder", false, false);
  decoder.num_layers = config.Size("num_hidden_layers", family.num_layers);
  decoder.hidden_size = config.Size("hidden_size", family.hidden_size);
  ReadLlamaHeads(family, config, decoder);
  decoder.feed_forward_size = config.Size("intermediate_size", family.intermediate_size);
  decoder.causal = true;
  decoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(decoder.head_dim));
  decoder.norm = NormKind::kRmsNorm;
  decoder.placement = NormPlacement::kPre;
  decoder.norm_epsilon = config.Epsilon(family.norm_epsilon_name, family.norm_epsilon);
  decoder.activation =
      config.ActivationFunction(family.activation_name, std::string(family.activation));
  decoder.gated = true;
  decoder.positions = PositionKind::kRotary;
  decoder.max_positions = config.Size("max_position_embeddings", family.max_position_embeddings);
  decoder.vocab_size = config.Size("vocab_size", family.vocab_size);
  const bool tied = config.Bool("tie_word_embeddings", family.tied);
  const bool attention_bias = family.attention_biases == AttentionBiases::kAsConfigured &&
                              config.Bool("attention_bias", false);
  const bool mlp_bias = family.has_mlp_bias && config.Bool("mlp_bias", false);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  decoder.rotary = ReadRotary(config, decoder.head_dim, decoder.max_positions, family.rotary);
  ReadLlamaWindows(family, config, decoder);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = StackPrefix(checkpoint);
  decoder.token_table = prefix + "embed_tokens.weight";
  decoder.final_norm = {prefix + "norm.weight", ""};
  decoder.layers = LlamaLayers(LayerPrefix(checkpoint), family, attention_bias, mlp_bias);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  // Older checkpoints store frequencies computed from rope_theta.
  description.spec.ignored_tensors = {prefix + "layers.*.self_attn.rotary_emb.inv_freq"};
  NameHead(checkpoint, "lm_head.weight", tied, description.spec);
  return description;
}

}  // namespace beamline
