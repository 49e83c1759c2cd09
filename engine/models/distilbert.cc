// DistilBERT: BERT's layers without token types and pooler, with other tensor names. Its
// pretraining head fills masks.
#include <cmath>
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/layer_names.h"

namespace beamline {
namespace {

LayerNames DistilBertLayers(const std::string& prefix) {
  const std::string layer = prefix + "transformer.layer.{}.";
  const std::string attention = layer + "attention.";
  LayerNames names;
  names.qkv = {{attention + "q_lin.weight", attention + "k_lin.weight", attention + "v_lin.weight"},
               {attention + "q_lin.bias", attention + "k_lin.bias", attention + "v_lin.bias"}};
  names.attention_output = NamedLinear(attention + "out_lin");
  names.attention_norm = NamedNorm(layer + "sa_layer_norm");
  names.feed_forward_in = NamedLinear(layer + "ffn.lin1");
  names.feed_forward_out = NamedLinear(layer + "ffn.lin2");
  names.feed_forward_norm = NamedNorm(layer + "output_layer_norm");
  return names;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeDistilBert(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  if (!IsClassifier(checkpoint)) BEAMLINE_RETURN_IF_ERROR(RefuseOtherHeads(checkpoint));
  config.Alias("dim", "hidden_size");
  config.Alias("n_heads", "num_attention_heads");
  config.Alias("n_layers", "num_hidden_layers");
  FamilyDescription description;
  StackSpec& encoder = description.spec.encoder.emplace();
  encoder.num_layers = config.Count("n_layers", 6);
  encoder.hidden_size = config.Size("dim", 768);
  encoder.num_heads = config.Size("n_heads", 12);
  encoder.num_kv_heads = encoder.num_heads;
  encoder.head_dim = encoder.hidden_size / encoder.num_heads;
  if (encoder.head_dim * encoder.num_heads != encoder.hidden_size) {
    config.Fault("n_heads", "dim must be a multiple of it");
  }
  encoder.feed_forward_size = config.Size("hidden_dim", 3072);
  encoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(encoder.head_dim));
  encoder.placement = NormPlacement::kPost;
  encoder.norm_epsilon = 1e-12f;  // fixed for the family; no field sets it
  encoder.activation = config.ActivationFunction("activation", "gelu");
  // Stored even if they were initialised as sinusoids (sinusoidal_pos_embds).
  encoder.positions = PositionKind::kLearned;
  encoder.max_positions = config.Size("max_position_embeddings", 512);
  encoder.vocab_size = config.Size("vocab_size", 30522);
  config.OptionalInt("pad_token_id", -1, encoder.vocab_size - 1);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string embeddings = "embeddings.word_embeddings.weight";
  const std::string prefix = checkpoint.Contains("distilbert." + embeddings) ? "distilbert." : "";
  encoder.token_table = prefix + embeddings;
  encoder.position_table = prefix + "embeddings.position_embeddings.weight";
  encoder.embedding_norm = NamedNorm(prefix + "embeddings.LayerNorm");
  encoder.layers = DistilBertLayers(prefix);
  CheckTableRows(checkpoint, encoder.token_table, "vocab_size", encoder.vocab_size, config);
  CheckTableRows(checkpoint, encoder.position_table, "max_position_embeddings",
                 encoder.max_positions, config);
  TransformerSpec& spec = description.spec;
  spec.vocab_size = encoder.vocab_size;
  spec.ignored_tensors = {prefix + "embeddings.position_ids", "vocab_transform.*",
                          "vocab_layer_norm.*", "vocab_projector.*"};
  if (IsTokenClassifier(checkpoint)) {
    SetTokenClassifier(checkpoint, config, spec);
  } else if (IsClassifier(checkpoint)) {
    SetClassifier(checkpoint, "pre_classifier", Activation::kRelu, "classifier", config, spec);
  }
  SetMaskHead(checkpoint,
              {.dense = "vocab_transform",
               .norm = "vocab_layer_norm",
               .output = "vocab_projector",
               .bias = "vocab_projector.bias"},
              encoder.activation, config, spec);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  return description;
}

}  // namespace beamline
