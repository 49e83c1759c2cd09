// How a config.json says by which angles queries and keys are rotated.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/models/config_fields.h"
#include "engine/transformer/spec.h"

namespace beamline {

// Where a family's configuration class differs from Llama's.
struct RotaryFamily {
  // Of a family that rotates layers of two types by angles of their own: the type's name, below
  // which rope_parameters has them. Only that of full attention has a rope_scaling.
  std::string_view layer_type;
  std::string_view theta_name = "rope_theta";
  double theta = 10000.0;         // without rope_theta
  bool may_be_partial = false;    // partial_rotary_factor may be other than 1
  double partial_factor = 1.0;    // without partial_rotary_factor
  double original_positions = 0;  // without original_max_position_embeddings; 0: max_positions
  std::span<const std::string_view> longrope_names = {};  // of the type, in older checkpoints
};

inline constexpr std::string_view kFullAttention = "full_attention";
inline constexpr std::string_view kSlidingAttention = "sliding_attention";

// 1 / theta ^ (2 i / rotary_dim) of each pair i, with the arithmetic of float32.
std::vector<float> RotaryFrequencies(double theta, int32_t rotary_dim);

// rope_parameters, or what transformers before 5 wrote: rope_scaling and rope_theta. Types default,
// linear, dynamic, llama3, yarn and longrope, with the arithmetic of transformers'
// modeling_rope_utils, which is float32; others, and parameters that a type does not have, are
// faults.
// The angles of dynamic depend on the sequence where it is longer than max_position_embeddings,
// which no sequence here is: those of default. Those of longrope are others for sequences beyond
// original_max_position_embeddings (RotarySpec::long_frequencies).
RotarySpec ReadRotary(ConfigFields& config, int32_t head_dim, int32_t max_positions,
                      const RotaryFamily& family = {});

}  // namespace beamline
