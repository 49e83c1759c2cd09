#include "engine/models/llama_like.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/rotary_config.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr int32_t kDefaultWindow = 4096;
constexpr int32_t kDefaultMaxWindowLayers = 28;
constexpr std::string_view kFullAttention = "full_attention";
constexpr std::string_view kSlidingAttention = "sliding_attention";

LinearNames Stacked(const std::string& prefix, const std::vector<std::string>& parts,
                    bool has_bias) {
  LinearNames names;
  for (const std::string& part : parts) {
    names.weights.push_back(prefix + part + ".weight");
    if (has_bias) names.biases.push_back(prefix + part + ".bias");
  }
  return names;
}

LayerNames Layers(const std::string& prefix, const LlamaLike& family, bool attention_bias,
                  bool mlp_bias) {
  const std::string layer = prefix + "layers.{}.";
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
void ReadHeads(const LlamaLike& family, ConfigFields& config, StackSpec& decoder) {
  decoder.num_heads = config.Size("num_attention_heads", 32);
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

// What config.json says of each layer; empty where it says nothing.
std::vector<std::string> LayerTypes(ConfigFields& config, int32_t num_layers) {
  std::vector<std::string> types = config.Strings("layer_types");
  if (!config.Has("layer_types")) return types;
  const auto is_known = [](const std::string& type) {
    return type == kFullAttention || type == kSlidingAttention;
  };
  if (types.size() != static_cast<size_t>(num_layers) || !std::ranges::all_of(types, is_known)) {
    config.Fault("layer_types", fmt::format("{} of \"{}\" and \"{}\" are expected", num_layers,
                                            kFullAttention, kSlidingAttention));
    types.clear();
  }
  return types;
}

// The window of each layer; empty where none is shorter than the longest sequence.
std::vector<int32_t> Windows(const LlamaLike& family, ConfigFields& config, int32_t num_layers,
                             int32_t max_positions) {
  const bool as_configured = family.windows == WindowedLayers::kAsConfigured;
  const bool used = as_configured ? config.Bool("use_sliding_window", false)
                                  : family.windows == WindowedLayers::kAll;
  const int32_t window =
      used && !config.IsNull("sliding_window") ? config.Size("sliding_window", kDefaultWindow) : 0;
  const int32_t first_windowed =
      as_configured ? config.Int("max_window_layers", 0, 1 << 20, kDefaultMaxWindowLayers) : 0;
  const std::vector<std::string> types = LayerTypes(config, num_layers);

  std::vector<int32_t> windows;
  for (int32_t layer = 0; layer < num_layers && config.status().ok(); ++layer) {
    const bool by_default = window > 0 && layer >= first_windowed;
    const bool windowed = types.empty() ? by_default : types[layer] == kSlidingAttention;
    if (windowed != by_default && (!as_configured || window == 0)) {
      config.Fault("layer_types", fmt::format("layer {} attends {} here", layer,
                                              by_default ? "within sliding_window" : "to all"));
    }
    windows.push_back(windowed && window < max_positions ? window : 0);
  }
  const bool all = std::ranges::all_of(windows, [](int32_t size) { return size == 0; });
  return all ? std::vector<int32_t>() : windows;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeLlamaLike(const Checkpoint& checkpoint,
                                                    const LlamaLike& family) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.RequireBool("is_encoder_decoder", false, false);
  decoder.num_layers = config.Size("num_hidden_layers", 32);
  decoder.hidden_size = config.Size("hidden_size", 4096);
  ReadHeads(family, config, decoder);
  decoder.feed_forward_size = config.Size("intermediate_size", family.intermediate_size);
  decoder.causal = true;
  decoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(decoder.head_dim));
  decoder.norm = NormKind::kRmsNorm;
  decoder.placement = NormPlacement::kPre;
  decoder.norm_epsilon = config.Float("rms_norm_eps", 1e-6f);
  if (decoder.norm_epsilon < 0 || decoder.norm_epsilon > 1) {
    config.Fault("rms_norm_eps", "a number from 0 to 1 is expected");
  }
  decoder.activation = config.ActivationFunction("hidden_act", "silu");
  decoder.gated = true;
  decoder.positions = PositionKind::kRotary;
  decoder.max_positions = config.Size("max_position_embeddings", family.max_position_embeddings);
  decoder.vocab_size = config.Size("vocab_size", family.vocab_size);
  const bool tied = config.Bool("tie_word_embeddings", false);
  const bool attention_bias = family.attention_biases == AttentionBiases::kAsConfigured &&
                              config.Bool("attention_bias", false);
  const bool mlp_bias = family.has_mlp_bias && config.Bool("mlp_bias", false);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  decoder.rotary = ReadRotary(config, decoder.head_dim, decoder.max_positions);
  decoder.attention_windows = Windows(family, config, decoder.num_layers, decoder.max_positions);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("embed_tokens.weight") ? "" : "model.";
  decoder.token_table = prefix + "embed_tokens.weight";
  decoder.final_norm = {prefix + "norm.weight", ""};
  decoder.layers = Layers(prefix, family, attention_bias, mlp_bias);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  description.spec.head = tied ? decoder.token_table : "lm_head.weight";
  // Older checkpoints store what is computed of rope_theta, and some a copy of the tied head.
  description.spec.ignored_tensors = {prefix + "layers.*.self_attn.rotary_emb.inv_freq"};
  if (tied) description.spec.ignored_tensors.push_back("lm_head.weight");
  return description;
}

}  // namespace beamline
