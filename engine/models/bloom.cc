// BLOOM: a pre-norm decoder without position embeddings, whose scores decrease with a key's
// distance (ALiBi). It has a norm of the embeddings, and a head's query, key and value in one
// matrix.
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/gpt_like.h"
#include "engine/models/layer_names.h"
#include "engine/models/shared_tables.h"

namespace beamline {
namespace {

constexpr GptLike kBloom = {.num_layers = {"n_layer", 2},
                            .hidden_size = {"hidden_size", 64},
                            .num_heads = {"n_head", 8},
                            .feed_forward_size = {},
                            .max_positions = {"seq_length", 2048},
                            .vocab_size = 250880,
                            .norm_epsilon = "layer_norm_epsilon",
                            .activation_name = {},
                            .activation = {}};

LayerNames BloomLayers(const std::string& prefix) {
  const std::string layer = prefix + "h.{}.";
  LayerNames names;
  names.attention_norm = NamedNorm(layer + "input_layernorm");
  names.qkv = NamedLinear(layer + "self_attention.query_key_value");
  names.qkv.grouped = true;
  names.attention_output = NamedLinear(layer + "self_attention.dense");
  names.feed_forward_norm = NamedNorm(layer + "post_attention_layernorm");
  names.feed_forward_in = NamedLinear(layer + "mlp.dense_h_to_4h");
  names.feed_forward_out = NamedLinear(layer + "mlp.dense_4h_to_h");
  return names;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeBloom(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.Alias("hidden_size", "n_embed");
  config.Alias("n_layer", "num_hidden_layers");
  config.Alias("n_head", "num_attention_heads");
  ReadGptLike(kBloom, config, decoder);
  config.RequireBool("apply_residual_connection_post_layernorm", false, false);
  decoder.activation = Activation::kGeluTanh;
  decoder.positions = PositionKind::kAlibi;
  decoder.alibi_slopes = AlibiSlopes(decoder.num_heads);
  const bool tied = config.Bool("tie_word_embeddings", true);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("word_embeddings.weight") ? "" : "transformer.";
  decoder.token_table = prefix + "word_embeddings.weight";
  decoder.embedding_norm = NamedNorm(prefix + "word_embeddings_layernorm");
  decoder.final_norm = NamedNorm(prefix + "ln_f");
  decoder.layers = BloomLayers(prefix);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  NameHead(checkpoint, "lm_head.weight", tied, description.spec);
  description.generation.bos_token_id = 1;
  return description;
}

}  // namespace beamline
