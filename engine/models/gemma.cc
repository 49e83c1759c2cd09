// Gemma: Llama with norm gains stored minus 1, embeddings scaled by the square root of the hidden
// size, and a gated GELU. Gemma 2 and 3 have norms before and after each branch. Gemma 3 also has
// head norms, and windowed layers with rotary angles of their own.
#include <cmath>
#include <string>

#include "base/status.h"
#include "engine/models/llama_like.h"

namespace beamline {
namespace {

constexpr LlamaLike kGemma = {.num_layers = 28,
                              .hidden_size = 3072,
                              .num_heads = 16,
                              .vocab_size = 256000,
                              .intermediate_size = 24576,
                              .num_key_value_heads = 16,
                              .head_dim = 256,
                              .max_position_embeddings = 8192,
                              .activation = "gelu_pytorch_tanh",
                              .tied = true,
                              .attention_biases = AttentionBiases::kAsConfigured};

// What every version has.
absl::StatusOr<FamilyDescription> DescribeGemmaLike(const Checkpoint& checkpoint,
                                                    const LlamaLike& family) {
  ConfigFields config(checkpoint.config(), "config.json");
  config.RequireBool("use_bidirectional_attention", false, false);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description, DescribeLlamaLike(checkpoint, family));
  StackSpec& decoder = *description.spec.decoder;
  decoder.token_scale = static_cast<float>(std::sqrt(static_cast<double>(decoder.hidden_size)));
  decoder.rounds_token_scale = true;
  return description;
}

// Marks the gains of all norms as stored minus 1.
void StoreGainsAboveOne(StackSpec& decoder) {
  LayerNames& names = decoder.layers;
  for (NormNames* norm :
       {&names.attention_norm, &names.attention_output_norm, &names.query_norm, &names.key_norm,
        &names.feed_forward_norm, &names.feed_forward_output_norm, &decoder.final_norm}) {
    norm->offset = 1.0f;
  }
}

// null means no cap (0); absent means the fallback.
float ReadSoftcap(const char* name, float fallback, ConfigFields& config) {
  if (config.IsNull(name)) return 0.0f;
  const float cap = config.Float(name, fallback);
  if (config.Has(name) && cap <= 0) config.Fault(name, "a number above 0, or null, is expected");
  return cap;
}

// What Gemma 2 and 3 share.
LlamaLike WithNormedBranches() {
  LlamaLike family = kGemma;
  family.num_layers = 26;
  family.hidden_size = 2304;
  family.num_heads = 8;
  family.intermediate_size = 9216;
  family.num_key_value_heads = 4;
  family.activation_name = "hidden_activation";
  family.windows = WindowedLayers::kByPattern;
  return family;
}

absl::StatusOr<FamilyDescription> DescribeNormedBranches(const Checkpoint& checkpoint,
                                                         const LlamaLike& family) {
  ConfigFields config(checkpoint.config(), "config.json");
  const float scalar = config.Float("query_pre_attn_scalar", 256.0f);
  if (scalar <= 0) config.Fault("query_pre_attn_scalar", "a number above 0 is expected");
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description, DescribeGemmaLike(checkpoint, family));
  StackSpec& decoder = *description.spec.decoder;
  decoder.attention_scale = 1.0f / std::sqrt(scalar);
  const std::string layer = LayerPrefix(checkpoint);
  LayerNames& names = decoder.layers;
  names.attention_output_norm = {layer + "post_attention_layernorm.weight", ""};
  names.feed_forward_norm = {layer + "pre_feedforward_layernorm.weight", ""};
  names.feed_forward_output_norm = {layer + "post_feedforward_layernorm.weight", ""};
  StoreGainsAboveOne(decoder);
  return description;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeGemma(const Checkpoint& checkpoint) {
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description, DescribeGemmaLike(checkpoint, kGemma));
  StackSpec& decoder = *description.spec.decoder;
  // transformers also reads "gelu" of the first checkpoints as the tanh variant.
  ConfigFields config(checkpoint.config(), "config.json");
  if (config.String("hidden_act", "") == "gelu") decoder.activation = Activation::kGeluTanh;
  StoreGainsAboveOne(decoder);
  return description;
}

absl::StatusOr<FamilyDescription> DescribeGemma2(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  const float attention_cap = ReadSoftcap("attn_logit_softcapping", 50.0f, config);
  const float logits_cap = ReadSoftcap("final_logit_softcapping", 30.0f, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  LlamaLike family = WithNormedBranches();
  family.vocab_size = 256000;
  family.max_position_embeddings = 8192;
  family.window_pattern = 2;
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description,
                            DescribeNormedBranches(checkpoint, family));
  description.spec.decoder->attention_softcap = attention_cap;
  description.spec.logits_softcap = logits_cap;
  return description;
}

absl::StatusOr<FamilyDescription> DescribeGemma3(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  // transformers reads this field but does not cap anything.
  if (config.Has("attn_logit_softcapping")) {
    config.Fault("attn_logit_softcapping", "only null is supported");
  }
  const float logits_cap = ReadSoftcap("final_logit_softcapping", 0.0f, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  LlamaLike family = WithNormedBranches();
  family.vocab_size = 262208;
  family.max_position_embeddings = 131072;
  family.has_head_norms = true;
  family.window_pattern = 6;
  family.rotary = {.layer_type = kFullAttention, .theta = 1e6};
  family.local_rotary = {.layer_type = kSlidingAttention, .theta_name = "rope_local_base_freq"};
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description,
                            DescribeNormedBranches(checkpoint, family));
  description.spec.logits_softcap = logits_cap;
  return description;
}

}  // namespace beamline
