// GPT-J: a pre-norm decoder whose branches are parallel and share one norm. Rotary positions rotate
// adjacent pairs of the first elements of each head.
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/gpt_like.h"
#include "engine/models/layer_names.h"
#include "engine/models/rotary_config.h"
#include "engine/models/shared_tables.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr GptLike kGptJ = {.num_layers = {"n_layer", 28},
                           .hidden_size = {"n_embd", 4096},
                           .num_heads = {"n_head", 16},
                           .feed_forward_size = {"n_inner"},
                           .max_positions = {"n_positions", 2048},
                           .vocab_size = 50400,
                           .norm_epsilon = "layer_norm_epsilon",
                           .activation_name = "activation_function",
                           .activation = "gelu_new"};

LayerNames GptJLayers(const std::string& prefix) {
  const std::string layer = prefix + "h.{}.";
  const std::string attention = layer + "attn.", mlp = layer + "mlp.";
  LayerNames names;
  names.attention_norm = names.feed_forward_norm = NamedNorm(layer + "ln_1");
  names.qkv = {
      {attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"}};
  names.attention_output = {{attention + "out_proj.weight"}};
  names.feed_forward_in = {{mlp + "fc_in.weight"}, {mlp + "fc_in.bias"}};
  names.feed_forward_out = {{mlp + "fc_out.weight"}, {mlp + "fc_out.bias"}};
  return names;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeGptJ(const Checkpoint& checkpoint) {
  constexpr double kTheta = 10000.0;
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.Alias("n_embd", "hidden_size");
  config.Alias("n_layer", "num_hidden_layers");
  config.Alias("n_head", "num_attention_heads");
  config.Alias("n_positions", "max_position_embeddings");
  ReadGptLike(kGptJ, config, decoder);
  decoder.parallel = true;
  decoder.positions = PositionKind::kRotary;
  const int32_t rotary_dim = config.Size("rotary_dim", 64);
  if (config.IsNull("rotary_dim") || rotary_dim % 2 != 0 || rotary_dim > decoder.head_dim) {
    config.Fault("rotary_dim",
                 fmt::format("an even number up to {}, of a head's elements, is expected",
                             decoder.head_dim));
  }
  const bool tied = config.Bool("tie_word_embeddings", false);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  decoder.rotary = {.frequencies = RotaryFrequencies(kTheta, rotary_dim), .interleaved = true};

  const std::string prefix = checkpoint.Contains("wte.weight") ? "" : "transformer.";
  decoder.token_table = prefix + "wte.weight";
  decoder.final_norm = NamedNorm(prefix + "ln_f");
  decoder.layers = GptJLayers(prefix);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  description.spec.head_bias = "lm_head.bias";
  // Older checkpoints store the causal mask.
  description.spec.ignored_tensors = {prefix + "h.*.attn.bias", prefix + "h.*.attn.masked_bias",
                                      prefix + "h.*.attn.embed_positions"};
  NameHead(checkpoint, "lm_head.weight", tied, description.spec);
  description.generation.bos_token_id = 50256;
  return description;
}

}  // namespace beamline
