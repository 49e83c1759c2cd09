// MPNet: BERT's layers without token types, with RoBERTa's positions and T5's relative attention
// biases. The pretraining head is ignored.
#include <cmath>
#include <string>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/layer_names.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// Fixed for the family; pad_token_id and relative_attention_num_buckets are ignored.
constexpr int32_t kPaddingId = 1;
constexpr int32_t kNumBuckets = 32;
constexpr int32_t kMaxMpnetDistance = 128;

LayerNames MpnetLayers(const std::string& prefix) {
  const std::string layer = prefix + "encoder.layer.{}.";
  const std::string attention = layer + "attention.attn.";
  LayerNames names;
  names.qkv = {{attention + "q.weight", attention + "k.weight", attention + "v.weight"},
               {attention + "q.bias", attention + "k.bias", attention + "v.bias"}};
  names.attention_output = NamedLinear(attention + "o");
  names.attention_norm = NamedNorm(layer + "attention.LayerNorm");
  names.feed_forward_in = NamedLinear(layer + "intermediate.dense");
  names.feed_forward_out = NamedLinear(layer + "output.dense");
  names.feed_forward_norm = NamedNorm(layer + "output.LayerNorm");
  return names;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeMpNet(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  if (!IsClassifier(checkpoint)) BEAMLINE_RETURN_IF_ERROR(RefuseOtherHeads(checkpoint));
  FamilyDescription description;
  StackSpec& encoder = description.spec.encoder.emplace();
  encoder.num_layers = config.Size("num_hidden_layers", 12);
  encoder.hidden_size = config.Size("hidden_size", 768);
  encoder.num_heads = config.Size("num_attention_heads", 12);
  encoder.num_kv_heads = encoder.num_heads;
  encoder.head_dim = encoder.hidden_size / encoder.num_heads;
  if (encoder.head_dim * encoder.num_heads != encoder.hidden_size) {
    config.Fault("num_attention_heads", "hidden_size must be a multiple of it");
  }
  encoder.feed_forward_size = config.Size("intermediate_size", 3072);
  encoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(encoder.head_dim));
  encoder.placement = NormPlacement::kPost;
  encoder.norm_epsilon = config.Epsilon("layer_norm_eps", 1e-12f);
  encoder.activation = config.ActivationFunction("hidden_act", "gelu");
  encoder.positions = PositionKind::kLearned;
  encoder.position_offset = kPaddingId + 1;
  encoder.padding_id = kPaddingId;
  const int32_t num_positions = config.Size("max_position_embeddings", 512);
  encoder.max_positions = num_positions - encoder.position_offset;
  if (encoder.max_positions < 1) {
    config.Fault("max_position_embeddings",
                 fmt::format("more than {} are expected", encoder.position_offset));
  }
  encoder.relative.num_buckets = kNumBuckets;
  encoder.relative.max_distance = kMaxMpnetDistance;
  if (config.Size("relative_attention_num_buckets", kNumBuckets) != kNumBuckets) {
    config.Fault("relative_attention_num_buckets", fmt::format("supported is {}", kNumBuckets));
  }
  encoder.vocab_size = config.Size("vocab_size", 30527);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string embeddings = "embeddings.word_embeddings.weight";
  const std::string prefix = checkpoint.Contains("mpnet." + embeddings) ? "mpnet." : "";
  encoder.token_table = prefix + embeddings;
  encoder.position_table = prefix + "embeddings.position_embeddings.weight";
  encoder.embedding_norm = NamedNorm(prefix + "embeddings.LayerNorm");
  encoder.relative.table = prefix + "encoder.relative_attention_bias.weight";
  encoder.layers = MpnetLayers(prefix);
  CheckTableRows(checkpoint, encoder.token_table, "vocab_size", encoder.vocab_size, config);
  CheckTableRows(checkpoint, encoder.position_table, "max_position_embeddings", num_positions,
                 config);
  TransformerSpec& spec = description.spec;
  spec.vocab_size = encoder.vocab_size;
  spec.ignored_tensors = {prefix + "embeddings.position_ids", prefix + "pooler.*", "lm_head.*"};
  if (IsTokenClassifier(checkpoint)) {
    SetTokenClassifier(checkpoint, config, spec);
  } else if (IsClassifier(checkpoint)) {
    SetClassifier(checkpoint, "classifier.dense", Activation::kTanh, "classifier.out_proj", config,
                  spec);
  }
  SetMaskHead(checkpoint,
              {.dense = "lm_head.dense",
               .norm = "lm_head.layer_norm",
               .output = "lm_head.decoder",
               .bias = "lm_head.bias"},
              Activation::kGelu, config, spec);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  return description;
}

}  // namespace beamline
