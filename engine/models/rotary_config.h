// Reads the rotary angles of queries and keys from config.json.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/models/config_fields.h"
#include "engine/transformer/spec.h"

namespace beamline {

// How a family's configuration class differs from Llama's.
struct RotaryFamily {
  // For a family with two layer types that use different angles: the type, whose object in
  // rope_parameters is read. Only full attention may use rope_scaling.
  std::string_view layer_type;
  std::string_view theta_name = "rope_theta";
  double theta = 10000.0;         // default of rope_theta
  bool may_be_partial = false;    // partial_rotary_factor may differ from 1
  double partial_factor = 1.0;    // default of partial_rotary_factor
  double original_positions = 0;  // default of original_max_position_embeddings; 0: max_positions
  std::span<const std::string_view> longrope_names = {};  // names of the type in older checkpoints
};

inline constexpr std::string_view kFullAttention = "full_attention";
inline constexpr std::string_view kSlidingAttention = "sliding_attention";

// 1 / theta ^ (2 i / rotary_dim) for each pair i, in float32 arithmetic.
std::vector<float> RotaryFrequencies(double theta, int32_t rotary_dim);

// Reads rope_parameters, or rope_scaling and rope_theta of transformers before version 5. Supports
// the types default, linear, dynamic, llama3, yarn and longrope, with the float32 arithmetic of
// transformers' modeling_rope_utils. Other types, and parameters that a type does not have, are
// faults. The type dynamic changes angles only for sequences beyond max_position_embeddings.
// Beamline has no such sequences, so it uses the angles of default. longrope uses other angles for
// sequences beyond original_max_position_embeddings (RotarySpec::long_frequencies).
RotarySpec ReadRotary(ConfigFields& config, int32_t head_dim, int32_t max_positions,
                      const RotaryFamily& family = {});

}  // namespace beamline
