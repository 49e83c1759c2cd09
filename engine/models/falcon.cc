// Falcon: a pre-norm decoder with rotary positions, and queries, keys and values in one matrix. The
// first architecture (7B) has one key-value head; the second (40B, 180B, Falcon 2) has grouped
// ones. RefinedWeb models (1B, 7B) use ALiBi instead of rotary positions.
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

constexpr GptLike kFalcon = {.num_layers = {"num_hidden_layers", 32},
                             .hidden_size = {"hidden_size", 4544},
                             .num_heads = {"num_attention_heads", 71},
                             .feed_forward_size = {"ffn_hidden_size"},
                             .max_positions = {"max_position_embeddings", 2048},
                             .vocab_size = 65024,
                             .norm_epsilon = "layer_norm_epsilon",
                             .activation_name = "activation",
                             .activation = "gelu"};

// Names of a layer's norms, of attention and of the feed-forward.
struct LayerNorms {
  std::string attention = "input_layernorm";
  std::string feed_forward = "input_layernorm";
};

LayerNames FalconLayers(const std::string& prefix, const LayerNorms& norms, bool has_bias) {
  const std::string layer = prefix + "h.{}.";
  LayerNames names;
  names.attention_norm = NamedNorm(layer + norms.attention);
  names.qkv = NamedLinear(layer + "self_attention.query_key_value", has_bias);
  names.qkv.grouped = true;
  names.attention_output = NamedLinear(layer + "self_attention.dense", has_bias);
  names.feed_forward_norm = NamedNorm(layer + norms.feed_forward);
  names.feed_forward_in = NamedLinear(layer + "mlp.dense_h_to_4h", has_bias);
  names.feed_forward_out = NamedLinear(layer + "mlp.dense_4h_to_h", has_bias);
  return names;
}

void ReadFalconHeads(ConfigFields& config, bool is_second, StackSpec& decoder) {
  const bool has_one = !is_second && config.Bool("multi_query", true);
  decoder.num_kv_heads = has_one ? 1 : config.Size("num_kv_heads", decoder.num_heads);
  if (decoder.num_heads % decoder.num_kv_heads != 0) {
    config.Fault("num_kv_heads", fmt::format("a divisor of num_attention_heads, {}, is expected",
                                             decoder.num_heads));
  }
  if (!is_second && !has_one && decoder.num_kv_heads != decoder.num_heads) {
    config.Fault("num_kv_heads", fmt::format("num_attention_heads, {}, is expected without "
                                             "new_decoder_architecture",
                                             decoder.num_heads));
  }
}

LayerNorms ReadNorms(ConfigFields& config, bool is_second, StackSpec& decoder) {
  decoder.parallel = config.Bool("parallel_attn", true);
  if (is_second && !decoder.parallel) {
    config.Fault("parallel_attn", "only true is supported with new_decoder_architecture");
  }
  const int32_t norms = config.Int("num_ln_in_parallel_attn", 1, 2, is_second ? 2 : 1);
  if (!is_second && norms != 1) {
    config.Fault("num_ln_in_parallel_attn", "only 1 is supported without new_decoder_architecture");
  }
  if (!decoder.parallel) return {.feed_forward = "post_attention_layernorm"};
  if (norms == 2) return {.attention = "ln_attn", .feed_forward = "ln_mlp"};
  return {};
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeFalcon(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.Alias("hidden_size", "n_embed");
  ReadGptLike(kFalcon, config, decoder);
  const bool has_alibi = config.Bool("alibi", false);
  const bool is_second = config.Bool("new_decoder_architecture", false);
  ReadFalconHeads(config, is_second, decoder);
  const LayerNorms norms = ReadNorms(config, is_second, decoder);
  if (has_alibi) {
    decoder.positions = PositionKind::kAlibi;
    decoder.alibi_slopes = AlibiSlopes(decoder.num_heads);
    decoder.rounded_alibi_factor = decoder.attention_scale;
  } else {
    decoder.positions = PositionKind::kRotary;
  }
  const bool has_bias = config.Bool("bias", false);
  const bool tied = config.Bool("tie_word_embeddings", true);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  if (!has_alibi) decoder.rotary = ReadRotary(config, decoder.head_dim, decoder.max_positions);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("word_embeddings.weight") ? "" : "transformer.";
  decoder.token_table = prefix + "word_embeddings.weight";
  decoder.final_norm = NamedNorm(prefix + "ln_f");
  decoder.layers = FalconLayers(prefix, norms, has_bias);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  // Older checkpoints store frequencies computed from rope_theta.
  description.spec.ignored_tensors = {prefix + "h.*.self_attention.rotary_emb.inv_freq"};
  NameHead(checkpoint, "lm_head.weight", tied, description.spec);
  return description;
}

}  // namespace beamline
