// How a config.json says by which angles queries and keys are rotated.
#pragma once

#include <cstdint>

#include "engine/models/config_fields.h"
#include "engine/transformer/spec.h"

namespace beamline {

// rope_parameters, or what transformers before 5 wrote: rope_scaling and rope_theta. Types default,
// linear, dynamic, llama3 and yarn, with the arithmetic of transformers' modeling_rope_utils, which
// is float32; others, and parameters that a type does not have, are faults.
// The angles of dynamic depend on the sequence where it is longer than max_position_embeddings,
// which no sequence here is: those of default.
RotarySpec ReadRotary(ConfigFields& config, int32_t head_dim, int32_t max_positions);

}  // namespace beamline
