// Qwen 2 and 2.5 (biases of queries, keys and values); Qwen 3 (norms of heads).
#include "engine/models/llama_like.h"

namespace beamline {
namespace {

constexpr LlamaLike kQwen2 = {.vocab_size = 151936,
                              .intermediate_size = 22016,
                              .num_key_value_heads = 32,
                              .head_dim = {},
                              .max_position_embeddings = 32768,
                              .attention_biases = AttentionBiases::kQueryKeyValue,
                              .windows = WindowedLayers::kAsConfigured};

}  // namespace

absl::StatusOr<FamilyDescription> DescribeQwen2(const Checkpoint& checkpoint) {
  return DescribeLlamaLike(checkpoint, kQwen2);
}

absl::StatusOr<FamilyDescription> DescribeQwen3(const Checkpoint& checkpoint) {
  LlamaLike family = kQwen2;
  family.head_dim = 128;
  family.attention_biases = AttentionBiases::kAsConfigured;
  family.has_head_norms = true;
  return DescribeLlamaLike(checkpoint, family);
}

}  // namespace beamline
