// Rotary position embedding: the cosines and sines by which queries and keys are rotated.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/transformer/spec.h"

namespace beamline {

// [num_positions, 2 * frequencies]: row p has scale * cos(p * frequency) of each, then the sines
// (Rotary::cos_sin). Angles are rounded to float32 before the cosine is taken, as transformers
// does: far from the beginning that is what the model was trained with. Source: arXiv:2104.09864.
std::vector<float> RotaryTable(const RotarySpec& rotary, int32_t num_positions);

}  // namespace beamline
