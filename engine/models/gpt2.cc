// GPT-2: a pre-norm decoder with learned positions; matrices are stored as [in, out].
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/gpt_like.h"
#include "engine/models/layer_names.h"
#include "engine/models/shared_tables.h"

namespace beamline {
namespace {

constexpr GptLike kGpt2 = {.num_layers = {"n_layer", 12},
                           .hidden_size = {"n_embd", 768},
                           .num_heads = {"n_head", 12},
                           .feed_forward_size = {"n_inner"},
                           .max_positions = {"n_positions", 1024},
                           .vocab_size = 50257,
                           .norm_epsilon = "layer_norm_epsilon",
                           .activation_name = "activation_function",
                           .activation = "gelu_new"};

LinearNames Conv1D(const std::string& name) {
  return {{name + ".weight"}, {name + ".bias"}, /*transposed=*/true};
}

LayerNames Gpt2Layers(const std::string& prefix) {
  const std::string layer = prefix + "h.{}.";
  LayerNames names;
  names.attention_norm = NamedNorm(layer + "ln_1");
  names.qkv = Conv1D(layer + "attn.c_attn");
  names.attention_output = Conv1D(layer + "attn.c_proj");
  names.feed_forward_norm = NamedNorm(layer + "ln_2");
  names.feed_forward_in = Conv1D(layer + "mlp.c_fc");
  names.feed_forward_out = Conv1D(layer + "mlp.c_proj");
  return names;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeGpt2(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.Alias("n_embd", "hidden_size");
  config.Alias("n_layer", "num_hidden_layers");
  config.Alias("n_head", "num_attention_heads");
  config.Alias("n_positions", "max_position_embeddings");
  ReadGptLike(kGpt2, config, decoder);
  if (!config.Bool("scale_attn_weights", true)) decoder.attention_scale = 1.0f;
  decoder.scale_by_inverse_layer = config.Bool("scale_attn_by_inverse_layer_idx", false);
  // Only matters for half precision in training; Beamline's scores are always float32.
  config.Bool("reorder_and_upcast_attn", false);
  config.RequireBool("add_cross_attention", false, false);
  decoder.positions = PositionKind::kLearned;
  const bool tied = config.Bool("tie_word_embeddings", true);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("transformer.wte.weight") ? "transformer." : "";
  decoder.token_table = prefix + "wte.weight";
  decoder.position_table = prefix + "wpe.weight";
  decoder.final_norm = NamedNorm(prefix + "ln_f");
  decoder.layers = Gpt2Layers(prefix);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  CheckTableRows(checkpoint, decoder.position_table, "n_positions", decoder.max_positions, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  // Older checkpoints store the causal mask.
  description.spec.ignored_tensors = {prefix + "h.*.attn.bias", prefix + "h.*.attn.masked_bias"};
  NameHead(checkpoint, "lm_head.weight", tied, description.spec);

  // Replaces an empty prompt. If the files name no end token, transformers uses none of the class.
  description.generation.bos_token_id = 50256;
  return description;
}

}  // namespace beamline
