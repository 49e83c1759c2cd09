// GPT-NeoX and Pythia: a pre-norm decoder whose branches mostly are parallel, with a part of each
// head rotated and a head's query, key and value in one matrix.
#include <cmath>
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/rotary_config.h"

namespace beamline {
namespace {

LinearNames Linear(const std::string& name, bool has_bias = true) {
  LinearNames names = {{name + ".weight"}};
  if (has_bias) names.biases = {name + ".bias"};
  return names;
}

NormNames Norm(const std::string& name) { return {name + ".weight", name + ".bias"}; }

LayerNames Layers(const std::string& prefix, bool attention_bias) {
  const std::string layer = prefix + "layers.{}.";
  LayerNames names;
  names.attention_norm = Norm(layer + "input_layernorm");
  names.qkv = Linear(layer + "attention.query_key_value", attention_bias);
  names.qkv.grouped = true;
  names.attention_output = Linear(layer + "attention.dense", attention_bias);
  names.feed_forward_norm = Norm(layer + "post_attention_layernorm");
  names.feed_forward_in = Linear(layer + "mlp.dense_h_to_4h");
  names.feed_forward_out = Linear(layer + "mlp.dense_4h_to_h");
  return names;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeGptNeoX(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.Alias("rope_theta", "rotary_emb_base");
  config.Alias("partial_rotary_factor", "rotary_pct");
  config.RequireBool("is_encoder_decoder", false, false);
  decoder.num_layers = config.Size("num_hidden_layers", 44);
  decoder.hidden_size = config.Size("hidden_size", 6144);
  decoder.num_heads = config.Size("num_attention_heads", 64);
  decoder.num_kv_heads = decoder.num_heads;
  decoder.head_dim = decoder.hidden_size / decoder.num_heads;
  if (decoder.head_dim * decoder.num_heads != decoder.hidden_size) {
    config.Fault("num_attention_heads", "hidden_size must be a multiple of it");
  }
  decoder.feed_forward_size = config.Size("intermediate_size", 24576);
  decoder.causal = true;
  decoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(decoder.head_dim));
  decoder.placement = NormPlacement::kPre;
  decoder.parallel = config.Bool("use_parallel_residual", true);
  decoder.norm_epsilon = config.Epsilon("layer_norm_eps", 1e-5f);
  decoder.activation = config.ActivationFunction("hidden_act", "gelu");
  decoder.positions = PositionKind::kRotary;
  decoder.max_positions = config.Size("max_position_embeddings", 2048);
  decoder.vocab_size = config.Size("vocab_size", 50432);
  const bool attention_bias = config.Bool("attention_bias", true);
  const bool tied = config.Bool("tie_word_embeddings", false);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  decoder.rotary = ReadRotary(config, decoder.head_dim, decoder.max_positions,
                              {.may_be_partial = true, .partial_factor = 0.25});
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("embed_in.weight") ? "" : "gpt_neox.";
  decoder.token_table = prefix + "embed_in.weight";
  decoder.final_norm = Norm(prefix + "final_layer_norm");
  decoder.layers = Layers(prefix, attention_bias);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  const std::string head =
      checkpoint.Contains("lm_head.weight") ? "lm_head.weight" : "embed_out.weight";
  description.spec.head = tied ? decoder.token_table : head;
  // Older checkpoints store the causal mask and the frequencies, and some a copy of the tied head.
  const std::string attention = prefix + "layers.*.attention.";
  description.spec.ignored_tensors = {attention + "bias", attention + "masked_bias",
                                      attention + "rotary_emb.inv_freq"};
  if (tied) description.spec.ignored_tensors.push_back(head);
  return description;
}

}  // namespace beamline
