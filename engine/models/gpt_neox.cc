// GPT-NeoX and Pythia: a pre-norm decoder, usually with parallel branches. Rotary positions cover a
// part of each head. A head's query, key and value are in one matrix.
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/gpt_like.h"
#include "engine/models/layer_names.h"
#include "engine/models/rotary_config.h"
#include "engine/models/shared_tables.h"

namespace beamline {
namespace {

constexpr GptLike kGptNeoX = {.num_layers = {"num_hidden_layers", 44},
                              .hidden_size = {"hidden_size", 6144},
                              .num_heads = {"num_attention_heads", 64},
                              .feed_forward_size = {"intermediate_size", 24576},
                              .max_positions = {"max_position_embeddings", 2048},
                              .vocab_size = 50432,
                              .norm_epsilon = "layer_norm_eps",
                              .activation_name = "hidden_act",
                              .activation = "gelu"};

LayerNames GptNeoXLayers(const std::string& prefix, bool attention_bias) {
  const std::string layer = prefix + "layers.{}.";
  LayerNames names;
  names.attention_norm = NamedNorm(layer + "input_layernorm");
  names.qkv = NamedLinear(layer + "attention.query_key_value", attention_bias);
  names.qkv.grouped = true;
  names.attention_output = NamedLinear(layer + "attention.dense", attention_bias);
  names.feed_forward_norm = NamedNorm(layer + "post_attention_layernorm");
  names.feed_forward_in = NamedLinear(layer + "mlp.dense_h_to_4h");
  names.feed_forward_out = NamedLinear(layer + "mlp.dense_4h_to_h");
  return names;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeGptNeoX(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.Alias("rope_theta", "rotary_emb_base");
  config.Alias("partial_rotary_factor", "rotary_pct");
  ReadGptLike(kGptNeoX, config, decoder);
  decoder.parallel = config.Bool("use_parallel_residual", true);
  decoder.positions = PositionKind::kRotary;
  const bool attention_bias = config.Bool("attention_bias", true);
  const bool tied = config.Bool("tie_word_embeddings", false);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  decoder.rotary = ReadRotary(config, decoder.head_dim, decoder.max_positions,
                              {.may_be_partial = true, .partial_factor = 0.25});
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("embed_in.weight") ? "" : "gpt_neox.";
  decoder.token_table = prefix + "embed_in.weight";
  decoder.final_norm = NamedNorm(prefix + "final_layer_norm");
  decoder.layers = GptNeoXLayers(prefix, attention_bias);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  const std::string head =
      checkpoint.Contains("lm_head.weight") ? "lm_head.weight" : "embed_out.weight";
  // Older checkpoints store the causal mask and the frequencies.
  const std::string attention = prefix + "layers.*.attention.";
  description.spec.ignored_tensors = {attention + "bias", attention + "masked_bias",
                                      attention + "rotary_emb.inv_freq"};
  NameHead(checkpoint, head, tied, description.spec);
  return description;
}

}  // namespace beamline
