// OPT: a decoder with learned positions, pre-norm or (opt-350m) post-norm, whose embeddings may be
// smaller than its hidden states (opt-350m).
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/gpt_like.h"
#include "engine/models/layer_names.h"
#include "engine/models/shared_tables.h"

namespace beamline {
namespace {

constexpr GptLike kOpt = {.num_layers = {"num_hidden_layers", 12},
                          .hidden_size = {"hidden_size", 768},
                          .num_heads = {"num_attention_heads", 12},
                          .feed_forward_size = {"ffn_dim", 3072},
                          .max_positions = {"max_position_embeddings", 2048},
                          .vocab_size = 50272,
                          .norm_epsilon = "",
                          .activation_name = "activation_function",
                          .activation = "relu"};

LayerNames OptLayers(const std::string& prefix, bool has_bias) {
  const std::string layer = prefix + "layers.{}.";
  const std::string attention = layer + "self_attn.";
  LayerNames names;
  names.attention_norm = NamedNorm(layer + "self_attn_layer_norm");
  for (const char* const part : {"q_proj", "k_proj", "v_proj"}) {
    names.qkv.weights.push_back(attention + part + ".weight");
    if (has_bias) names.qkv.biases.push_back(attention + part + ".bias");
  }
  names.attention_output = NamedLinear(attention + "out_proj", has_bias);
  names.feed_forward_norm = NamedNorm(layer + "final_layer_norm");
  names.feed_forward_in = NamedLinear(layer + "fc1", has_bias);
  names.feed_forward_out = NamedLinear(layer + "fc2", has_bias);
  return names;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeOpt(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  ReadGptLike(kOpt, config, decoder);
  const int32_t embedding_size = config.Size("word_embed_proj_dim", decoder.hidden_size);
  const bool pre_norm = config.Bool("do_layer_norm_before", true);
  decoder.placement = pre_norm ? NormPlacement::kPre : NormPlacement::kPost;
  const bool has_final_norm = pre_norm && !config.Bool("_remove_final_layer_norm", false);
  config.RequireBool("layer_norm_elementwise_affine", true, true);
  decoder.positions = PositionKind::kLearned;
  decoder.position_offset = 2;  // the first rows are unused
  const bool has_bias = config.Bool("enable_bias", true);
  const bool tied = config.Bool("tie_word_embeddings", true);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix =
      checkpoint.Contains("decoder.embed_tokens.weight") ? "decoder." : "model.decoder.";
  decoder.token_table = prefix + "embed_tokens.weight";
  decoder.position_table = prefix + "embed_positions.weight";
  if (has_final_norm) decoder.final_norm = NamedNorm(prefix + "final_layer_norm");
  if (embedding_size != decoder.hidden_size) {
    decoder.projected_size = embedding_size;
    decoder.projects_tokens_alone = true;
    decoder.projection = NamedLinear(prefix + "project_in", /*has_bias=*/false);
    decoder.output_projection = NamedLinear(prefix + "project_out", /*has_bias=*/false);
  }
  decoder.layers = OptLayers(prefix, has_bias);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  NameHead(checkpoint, "lm_head.weight", tied, description.spec);
  description.generation.bos_token_id = 2;
  return description;
}

}  // namespace beamline
