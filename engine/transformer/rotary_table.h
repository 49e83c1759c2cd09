// Rotary position embedding: the cosines and sines by which queries and keys are rotated.
#pragma once

#include <cstdint>
#include <span>

#include "engine/transformer/spec.h"

namespace beamline {

// Rows [2 * frequencies] of the positions from first_position on: scale * cos(p * frequency) of
// each, then the sines (Rotary::cos_sin). Angles are rounded to float32 before the cosine is taken,
// as transformers does: far from the beginning that is what the model was trained with. REQUIRES:
// whole rows. Source: arXiv:2104.09864.
void FillRotaryTable(const RotarySpec& rotary, int64_t first_position, std::span<float> rows);

}  // namespace beamline
