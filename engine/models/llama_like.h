// Llama and what is built like it: pre-norm decoders with RMSNorm, rotary positions, grouped
// key-value heads and a gated feed-forward. A family is a LlamaLike, which says where it differs;
// its file holds little else.
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
  kByPattern,     // by layer_types, or all but every sliding_window_pattern-th one
};

struct LlamaLike {
  // Of transformers' configuration class, where config.json does not say.
  int32_t num_layers = 32;
  int32_t hidden_size = 4096;
  int32_t num_heads = 32;
  int32_t vocab_size = 32000;
  int32_t intermediate_size = 11008;
  std::optional<int32_t> num_key_value_heads;  // none: as many as attention heads
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
  bool has_mlp_bias = false;  // by mlp_bias
  bool has_head_norms = false;
  WindowedLayers windows = WindowedLayers::kNone;
  int32_t window_pattern = 1;
  // Of layers within a window, which then are rotated by angles of their own (RotarySpec).
  std::optional<RotaryFamily> local_rotary;
};

// The parts' weights below `prefix`, one behind the other.
LinearNames Stacked(const std::string& prefix, const std::vector<std::string>& parts,
                    bool has_bias);
// What stands before the names of a layer's tensors: "model.layers.{}.".
std::string LayerPrefix(const Checkpoint& checkpoint);

// A family that stores tensors otherwise changes the names behind this call.
absl::StatusOr<FamilyDescription> DescribeLlamaLike(const Checkpoint& checkpoint,
                                                    const LlamaLike& family);

}  // namespace beamline
