// Rotary position embedding: the cosines and sines by which queries and keys are rotated.
#pragma once

#include <cstdint>
#include <span>

#include "engine/transformer/spec.h"

namespace beamline {

// Rows [2 * frequencies] of the table from first_row on: scale * cos(p * frequency) of each pair,
// then the sines (Rotary::cos_sin). Row p is position p's; with long_frequencies the first
// original_positions rows are those of short sequences, and behind them come those of long ones,
// from position 0 on (RotarySpec::first_row). Angles are rounded to float32 before the cosine is
// taken, as transformers does: far from the beginning that is what the model was trained with.
// REQUIRES: whole rows. Source: arXiv:2104.09864.
void FillRotaryTable(const RotarySpec& rotary, int64_t first_row, std::span<float> rows);

}  // namespace beamline
