// Llama and similar pre-norm decoders: RMSNorm, rotary positions, grouped key-value heads and a
// gated feed-forward. A family is a LlamaLike, which says how it differs; its file has little else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/families.h"
#include "engine/models/rotary_config.h"

namespace beamline {

// Which projections of attention have a bias.
enum class AttentionBiases : uint8_t {
  kNone,
  kQueryKeyValue,  // queries, keys and values
  kAsConfigured,   // attention_bias decides for these and the output
};

// Which layers use the sliding window.
enum class WindowedLayers : uint8_t {
  kNone,
  kAll,
  kAsConfigured,  // with use_sliding_window: by layer_types, or layers from max_window_layers on
  kByPattern,     // by layer_types, or all layers except every sliding_window_pattern-th
};

struct LlamaLike {
  // Defaults of transformers' configuration class for fields that config.json does not have.
  int32_t num_layers = 32;
  int32_t hidden_size = 4096;
  int32_t num_heads = 32;
  int32_t vocab_size = 32000;
  int32_t intermediate_size = 11008;
  std::optional<int32_t> num_key_value_heads;  // none: equal to the attention heads
  std::optional<int32_t> head_dim;             // none: hidden_size / num_attention_heads
  int32_t max_position_embeddings = 2048;

  float norm_epsilon = 1e-6f;
  std::string_view norm_epsilon_name = "rms_norm_eps";
  std::string_view activation = "silu";
  std::string_view activation_name = "hidden_act";
  bool tied = false;              // tie_word_embeddings
  int32_t sliding_window = 4096;  // 0: none
  RotaryFamily rotary;

  AttentionBiases attention_biases = AttentionBiases::kNone;
  bool has_mlp_bias = false;  // from mlp_bias
  bool has_head_norms = false;
  WindowedLayers windows = WindowedLayers::kNone;
  int32_t window_pattern = 1;
  // Set if windowed layers use rotary angles of their own (RotarySpec).
  std::optional<RotaryFamily> local_rotary;
};

// Stacks the matrices of `parts` below `prefix` into one.
LinearNames Stacked(const std::string& prefix, const std::vector<std::string>& parts,
                    bool has_bias);
// The prefix of a layer's tensor names: "model.layers.{}.".
std::string LayerPrefix(const Checkpoint& checkpoint);

// A family that stores tensors differently changes the names after this call.
absl::StatusOr<FamilyDescription> DescribeLlamaLike(const Checkpoint& checkpoint,
                                                    const LlamaLike& family);

}  // namespace beamline
