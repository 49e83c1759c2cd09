// Nomic-BERT: BERT's norms and token types with rotary positions and gated feed-forwards, without
// biases. The pretraining head is ignored.
#include <cmath>
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/layer_names.h"
#include "engine/models/rotary_config.h"

namespace beamline {
namespace {

LayerNames NomicBertLayers(const std::string& prefix) {
  const std::string layer = prefix + "encoder.layers.{}.";
  LayerNames names;
  names.qkv = {{layer + "attn.Wqkv.weight"}, {}};
  names.attention_output = {{layer + "attn.out_proj.weight"}, {}};
  names.attention_norm = NamedNorm(layer + "norm1");
  names.feed_forward_in = {{layer + "mlp.fc12.weight", layer + "mlp.fc11.weight"}, {}};
  names.feed_forward_out = {{layer + "mlp.fc2.weight"}, {}};
  names.feed_forward_norm = NamedNorm(layer + "norm2");
  return names;
}

// Checks fields of files before transformers 5, whose class supports one value for each.
void CheckOlderFields(ConfigFields& config) {
  config.RequireString("activation_function", "swiglu", "swiglu");
  for (const char* field : {"prenorm", "parallel_block", "use_rms_norm", "qkv_proj_bias",
                            "mlp_fc1_bias", "mlp_fc2_bias", "rotary_emb_interleaved"}) {
    config.RequireBool(field, false, false);
  }
  if (config.Int("moe_every_n_layers", -1, 1 << 20, 0) > 0) {
    config.Fault("moe_every_n_layers", "only 0 is supported");
  }
  if (config.Float("rotary_emb_fraction", 1.0f) != 1.0f) {
    config.Fault("rotary_emb_fraction", "only 1 is supported");
  }
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeNomicBert(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  if (!IsClassifier(checkpoint)) BEAMLINE_RETURN_IF_ERROR(RefuseOtherHeads(checkpoint));
  config.Alias("num_hidden_layers", "n_layer");
  config.Alias("hidden_size", "n_embd");
  config.Alias("num_attention_heads", "n_head");
  config.Alias("intermediate_size", "n_inner");
  config.Alias("layer_norm_eps", "layer_norm_epsilon");
  CheckOlderFields(config);
  FamilyDescription description;
  StackSpec& encoder = description.spec.encoder.emplace();
  encoder.num_layers = config.Size("num_hidden_layers", 12);
  encoder.hidden_size = config.Size("hidden_size", 768);
  encoder.num_heads = config.Size("num_attention_heads", 12);
  encoder.num_kv_heads = encoder.num_heads;
  const int32_t quotient = encoder.hidden_size / encoder.num_heads;
  if (!config.Has("head_dim") && quotient * encoder.num_heads != encoder.hidden_size) {
    config.Fault("num_attention_heads", "hidden_size must be a multiple of it");
  }
  encoder.head_dim = config.Size("head_dim", quotient > 0 ? quotient : 1);
  encoder.feed_forward_size = config.Size("intermediate_size", 3072);
  encoder.gated = true;
  encoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(encoder.head_dim));
  encoder.placement = NormPlacement::kPost;
  encoder.norm_epsilon = config.Epsilon("layer_norm_eps", 1e-12f);
  encoder.activation = config.ActivationFunction("hidden_act", "silu");
  encoder.positions = PositionKind::kRotary;
  encoder.max_positions = config.Size("max_position_embeddings", 2048);
  encoder.vocab_size = config.Size("vocab_size", 30528);
  encoder.num_types = config.Size("type_vocab_size", 2);
  config.OptionalInt("pad_token_id", -1, encoder.vocab_size - 1);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  encoder.rotary = ReadRotary(config, encoder.head_dim, encoder.max_positions, {.theta = 1000.0});

  const std::string embeddings = "embeddings.word_embeddings.weight";
  const std::string prefix = checkpoint.Contains("nomic_bert." + embeddings) ? "nomic_bert." : "";
  encoder.token_table = prefix + embeddings;
  encoder.type_table = prefix + "embeddings.token_type_embeddings.weight";
  encoder.embedding_norm = NamedNorm(prefix + "emb_ln");
  encoder.layers = NomicBertLayers(prefix);
  CheckTableRows(checkpoint, encoder.token_table, "vocab_size", encoder.vocab_size, config);
  TransformerSpec& spec = description.spec;
  spec.vocab_size = encoder.vocab_size;
  spec.ignored_tensors = {prefix + "pooler.*", "cls.*"};
  if (IsTokenClassifier(checkpoint)) {
    SetTokenClassifier(checkpoint, config, spec);
  } else if (IsClassifier(checkpoint)) {
    SetClassifier(checkpoint, prefix + "pooler.dense", Activation::kTanh, "classifier", config,
                  spec);
  }
  SetMaskHead(checkpoint,
              {.dense = "cls.predictions.transform.dense",
               .norm = "cls.predictions.transform.layer_norm",
               .output = "cls.predictions.decoder",
               .bias = "cls.predictions.bias"},
              encoder.activation, config, spec);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  return description;
}

}  // namespace beamline
