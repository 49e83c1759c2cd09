// Llama 2 and 3, and Mistral, which uses a sliding window.
#include "engine/models/llama_like.h"

namespace beamline {

absl::StatusOr<FamilyDescription> DescribeLlama(const Checkpoint& checkpoint) {
  return DescribeLlamaLike(
      checkpoint, {.attention_biases = AttentionBiases::kAsConfigured, .has_mlp_bias = true});
}

absl::StatusOr<FamilyDescription> DescribeMistral(const Checkpoint& checkpoint) {
  return DescribeLlamaLike(checkpoint, {.intermediate_size = 14336,
                                        .num_key_value_heads = 8,
                                        .max_position_embeddings = 131072,
                                        .windows = WindowedLayers::kAll});
}

}  // namespace beamline
