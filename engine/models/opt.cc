// OPT: a decoder with learned positions, pre-norm or (opt-350m) post-norm.
#include <cmath>
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "fmt/format.h"

namespace beamline {
namespace {

LinearNames Linear(const std::string& name, bool has_bias) {
  LinearNames names = {{name + ".weight"}};
  if (has_bias) names.biases = {name + ".bias"};
  return names;
}

NormNames Norm(const std::string& name) { return {name + ".weight", name + ".bias"}; }

LayerNames Layers(const std::string& prefix, bool has_bias) {
  const std::string layer = prefix + "layers.{}.";
  const std::string attention = layer + "self_attn.";
  LayerNames names;
  names.attention_norm = Norm(layer + "self_attn_layer_norm");
  for (const char* const part : {"q_proj", "k_proj", "v_proj"}) {
    names.qkv.weights.push_back(attention + part + ".weight");
    if (has_bias) names.qkv.biases.push_back(attention + part + ".bias");
  }
  names.attention_output = Linear(attention + "out_proj", has_bias);
  names.feed_forward_norm = Norm(layer + "final_layer_norm");
  names.feed_forward_in = Linear(layer + "fc1", has_bias);
  names.feed_forward_out = Linear(layer + "fc2", has_bias);
  return names;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeOpt(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  StackSpec& decoder = description.spec.decoder.emplace();
  config.RequireBool("is_encoder_decoder", false, false);
  decoder.num_layers = config.Size("num_hidden_layers", 12);
  decoder.hidden_size = config.Size("hidden_size", 768);
  decoder.num_heads = config.Size("num_attention_heads", 12);
  decoder.num_kv_heads = decoder.num_heads;
  decoder.head_dim = decoder.hidden_size / decoder.num_heads;
  if (decoder.head_dim * decoder.num_heads != decoder.hidden_size) {
    config.Fault("num_attention_heads", "hidden_size must be a multiple of it");
  }
  decoder.feed_forward_size = config.Size("ffn_dim", 3072);
  if (config.Size("word_embed_proj_dim", decoder.hidden_size) != decoder.hidden_size) {
    config.Fault("word_embed_proj_dim",
                 fmt::format("only hidden_size, {}, is supported", decoder.hidden_size));
  }
  decoder.causal = true;
  decoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(decoder.head_dim));
  const bool pre_norm = config.Bool("do_layer_norm_before", true);
  decoder.placement = pre_norm ? NormPlacement::kPre : NormPlacement::kPost;
  const bool has_final_norm = pre_norm && !config.Bool("_remove_final_layer_norm", false);
  config.RequireBool("layer_norm_elementwise_affine", true, true);
  decoder.norm_epsilon = 1e-5f;
  decoder.activation = config.ActivationFunction("activation_function", "relu");
  decoder.positions = PositionKind::kLearned;
  decoder.max_positions = config.Size("max_position_embeddings", 2048);
  decoder.position_offset = 2;  // rows that nobody reads
  decoder.vocab_size = config.Size("vocab_size", 50272);
  const bool has_bias = config.Bool("enable_bias", true);
  const bool tied = config.Bool("tie_word_embeddings", true);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix =
      checkpoint.Contains("decoder.embed_tokens.weight") ? "decoder." : "model.decoder.";
  decoder.token_table = prefix + "embed_tokens.weight";
  decoder.position_table = prefix + "embed_positions.weight";
  if (has_final_norm) decoder.final_norm = Norm(prefix + "final_layer_norm");
  decoder.layers = Layers(prefix, has_bias);
  CheckTableRows(checkpoint, decoder.token_table, "vocab_size", decoder.vocab_size, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  description.spec.vocab_size = decoder.vocab_size;
  description.spec.head = tied ? decoder.token_table : "lm_head.weight";
  if (tied) description.spec.ignored_tensors.push_back("lm_head.weight");
  description.generation.bos_token_id = 2;
  return description;
}

}  // namespace beamline
