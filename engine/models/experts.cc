// MoE families. Mixtral is Mistral with experts instead of feed-forwards. Qwen2-MoE and Qwen3-MoE
// are Qwen 2 and 3 with experts in all or some layers; Qwen2-MoE also has a shared expert for all
// rows. OLMoE is Llama with experts, and with norms over all queries and all keys.
#include <algorithm>
#include <string>

#include "base/status.h"
#include "engine/models/llama_like.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr LlamaLike kMixtral = {.intermediate_size = 14336,
                                .num_key_value_heads = 8,
                                .max_position_embeddings = 131072,
                                .norm_epsilon = 1e-5f,
                                .sliding_window = 0,
                                .rotary = {.theta = 1e6},
                                .windows = WindowedLayers::kAll};

constexpr LlamaLike kQwenMoe = {.num_layers = 24,
                                .hidden_size = 2048,
                                .vocab_size = 151936,
                                .intermediate_size = 6144,
                                .num_key_value_heads = 4,
                                .max_position_embeddings = 32768};

constexpr LlamaLike kOlmoe = {.num_layers = 16,
                              .hidden_size = 2048,
                              .num_heads = 16,
                              .vocab_size = 50304,
                              .intermediate_size = 2048,
                              .max_position_embeddings = 4096,
                              .norm_epsilon = 1e-5f,
                              .attention_biases = AttentionBiases::kAsConfigured,
                              .has_head_norms = true};

// Reads the number of experts and the number of experts per token.
void ReadNumbers(const char* name, int32_t num_experts, int32_t num_chosen, ConfigFields& config,
                 ExpertsSpec& experts) {
  experts.num_experts = config.Int(name, 1, kMostExperts, num_experts);
  experts.num_chosen = config.Int("num_experts_per_tok", 1, kMostChosenExperts, num_chosen);
  if (experts.num_chosen > experts.num_experts) {
    config.Fault("num_experts_per_tok",
                 fmt::format("1 to {}, {}, is expected", name, experts.num_experts));
  }
}

// Tensor names of experts that are named like a feed-forward, below `mlp`.
void NameExperts(const std::string& mlp, LayerNames& names) {
  names.router = {{mlp + "gate.weight"}};
  names.expert_in = Stacked(mlp + "experts.{}.", {"gate_proj", "up_proj"}, /*has_bias=*/false);
  names.expert_out = Stacked(mlp + "experts.{}.", {"down_proj"}, /*has_bias=*/false);
}

// Describes what Qwen2-MoE and Qwen3-MoE share; `otherwise`: defaults for absent fields.
absl::StatusOr<FamilyDescription> DescribeQwenMoe(const Checkpoint& checkpoint,
                                                  const LlamaLike& family,
                                                  const ExpertsSpec& otherwise) {
  ConfigFields config(checkpoint.config(), "config.json");
  ExpertsSpec experts;
  config.Alias("num_experts", "num_local_experts");  // as transformers 5 writes it
  ReadNumbers("num_experts", otherwise.num_experts, otherwise.num_chosen, config, experts);
  experts.inner_size = config.Size("moe_intermediate_size", otherwise.inner_size);
  experts.renormalize = config.Bool("norm_topk_prob", false);
  config.RequireBool("use_sliding_window", false, false);
  const int32_t step = config.Size("decoder_sparse_step", 1);
  const TokenIds dense = config.Ids("mlp_only_layers");
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description, DescribeLlamaLike(checkpoint, family));
  StackSpec& decoder = *description.spec.decoder;
  for (int32_t layer = 0; layer < decoder.num_layers; ++layer) {
    experts.layers.push_back((layer + 1) % step == 0 && std::ranges::count(dense, layer) == 0);
  }
  decoder.experts = experts;
  NameExperts(LayerPrefix(checkpoint) + "mlp.", decoder.layers);
  return description;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeMixtral(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  ExpertsSpec experts;
  config.Alias("num_local_experts", "num_experts");
  ReadNumbers("num_local_experts", 8, 2, config, experts);
  experts.renormalize = true;
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description, DescribeLlamaLike(checkpoint, kMixtral));
  StackSpec& decoder = *description.spec.decoder;
  experts.inner_size = decoder.feed_forward_size;
  decoder.experts = experts;
  const std::string layer = LayerPrefix(checkpoint) + "block_sparse_moe.";
  LayerNames& names = decoder.layers;
  names.feed_forward_in = names.feed_forward_out = {};
  names.router = {{layer + "gate.weight"}};
  names.expert_in = {{layer + "experts.{}.w1.weight", layer + "experts.{}.w3.weight"}};
  names.expert_out = {{layer + "experts.{}.w2.weight"}};
  description.generation.bos_token_id = 1;
  description.generation.eos_token_ids = {2};
  return description;
}

absl::StatusOr<FamilyDescription> DescribeQwen2Moe(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  const int32_t shared_size = config.Size("shared_expert_intermediate_size", 5632);
  LlamaLike family = kQwenMoe;
  family.num_heads = 16;
  family.intermediate_size = 5632;
  family.num_key_value_heads = 16;
  family.attention_biases =
      config.Bool("qkv_bias", true) ? AttentionBiases::kQueryKeyValue : AttentionBiases::kNone;
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(
      FamilyDescription description,
      DescribeQwenMoe(checkpoint, family,
                      {.num_experts = 60, .num_chosen = 4, .inner_size = 1408}));
  const std::string mlp = LayerPrefix(checkpoint) + "mlp.";
  description.spec.decoder->experts.shared_size = shared_size;
  LayerNames& names = description.spec.decoder->layers;
  names.router.weights.push_back(mlp + "shared_expert_gate.weight");
  names.shared_in = Stacked(mlp + "shared_expert.", {"gate_proj", "up_proj"}, /*has_bias=*/false);
  names.shared_out = Stacked(mlp + "shared_expert.", {"down_proj"}, /*has_bias=*/false);
  return description;
}

absl::StatusOr<FamilyDescription> DescribeQwen3Moe(const Checkpoint& checkpoint) {
  LlamaLike family = kQwenMoe;
  family.attention_biases = AttentionBiases::kAsConfigured;
  family.has_head_norms = true;
  return DescribeQwenMoe(checkpoint, family,
                         {.num_experts = 128, .num_chosen = 8, .inner_size = 768});
}

absl::StatusOr<FamilyDescription> DescribeOlmoe(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  ExpertsSpec experts;
  config.Alias("num_experts", "num_local_experts");
  ReadNumbers("num_experts", 64, 8, config, experts);
  experts.renormalize = config.Bool("norm_topk_prob", false);
  if (config.Has("clip_qkv")) config.Fault("clip_qkv", "only null is supported");
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description, DescribeLlamaLike(checkpoint, kOlmoe));
  StackSpec& decoder = *description.spec.decoder;
  experts.inner_size = decoder.feed_forward_size;
  decoder.experts = experts;
  decoder.norms_all_heads = true;
  decoder.layers.feed_forward_in = decoder.layers.feed_forward_out = {};
  NameExperts(LayerPrefix(checkpoint) + "mlp.", decoder.layers);
  description.generation.eos_token_ids = {50279};
  description.generation.pad_token_id = 1;
  return description;
}

}  // namespace beamline
