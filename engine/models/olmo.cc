// OLMo: Llama with norms without parameters, and optionally clipped queries, keys and values. OLMo
// 2: Llama with norms after its branches instead of before, and norms over all queries and all
// keys.
#include <string>

#include "base/status.h"
#include "engine/models/llama_like.h"

namespace beamline {
namespace {

constexpr LlamaLike kOlmo = {
    .vocab_size = 50304, .norm_epsilon = 1e-5f, .attention_biases = AttentionBiases::kAsConfigured};

// Ids of transformers' configuration class.
void SetIds(FamilyDescription& description) {
  description.generation.eos_token_ids = {50279};
  description.generation.pad_token_id = 1;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeOlmo(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  const float clip = config.Float("clip_qkv", 0.0f);
  if (config.Has("clip_qkv") && clip <= 0) {
    config.Fault("clip_qkv", "a number above 0, or null, is expected");
  }
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description, DescribeLlamaLike(checkpoint, kOlmo));
  StackSpec& decoder = *description.spec.decoder;
  decoder.norm = NormKind::kLayerNorm;
  decoder.norm_epsilon = 1e-5f;  // fixed for the family
  decoder.head_clip = clip;
  for (NormNames* norm :
       {&decoder.layers.attention_norm, &decoder.layers.feed_forward_norm, &decoder.final_norm}) {
    *norm = {.plain = true};
  }
  SetIds(description);
  return description;
}

absl::StatusOr<FamilyDescription> DescribeOlmo2(const Checkpoint& checkpoint) {
  LlamaLike family = kOlmo;
  family.has_head_norms = true;
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description, DescribeLlamaLike(checkpoint, family));
  StackSpec& decoder = *description.spec.decoder;
  decoder.norms_all_heads = true;
  const std::string layer = LayerPrefix(checkpoint);
  LayerNames& names = decoder.layers;
  names.attention_norm = names.feed_forward_norm = {};
  names.attention_output_norm = {layer + "post_attention_layernorm.weight", ""};
  names.feed_forward_output_norm = {layer + "post_feedforward_layernorm.weight", ""};
  SetIds(description);
  return description;
}

}  // namespace beamline
