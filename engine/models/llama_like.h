// Llama and what is built like it: pre-norm decoders with RMSNorm, rotary positions, grouped
// key-value heads and a gated feed-forward. A family is a LlamaLike, which says where it differs;
// its file holds little else.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/families.h"

namespace beamline {

// Which products have a bias.
enum class AttentionBiases : uint8_t {
  kNone,
  kQueryKeyValue,  // those of queries, keys and values
  kAsConfigured,   // by attention_bias, these and that of the output
};

// Which layers attend within sliding_window.
enum class WindowedLayers : uint8_t {
  kNone,
  kAll,
  kAsConfigured,  // with use_sliding_window, by layer_types or from max_window_layers on
};

struct LlamaLike {
  // Of transformers' configuration class, where config.json does not say.
  int32_t vocab_size = 32000;
  int32_t intermediate_size = 11008;
  std::optional<int32_t> num_key_value_heads;  // none: as many as attention heads
  std::optional<int32_t> head_dim;             // none: hidden_size / num_attention_heads
  int32_t max_position_embeddings = 2048;

  AttentionBiases attention_biases = AttentionBiases::kNone;
  bool has_mlp_bias = false;  // by mlp_bias
  bool has_head_norms = false;
  WindowedLayers windows = WindowedLayers::kNone;
};

absl::StatusOr<FamilyDescription> DescribeLlamaLike(const Checkpoint& checkpoint,
                                                    const LlamaLike& family);

}  // namespace beamline
