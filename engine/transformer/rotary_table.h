// Rotary position embedding: the cosines and sines that rotate queries and keys.
#pragma once

#include <cstdint>
#include <span>

#include "engine/transformer/spec.h"

namespace beamline {

// Fills rows [2 * frequencies] of the table from first_row on: scale * cos(p * frequency) for each
// pair, then the sines (Rotary::cos_sin). Row p belongs to position p. With long_frequencies, the
// first original_positions rows are for short sequences; the rows after them are for long
// sequences, from position 0 on (RotarySpec::first_row). As in transformers, angles are rounded to
// float32 before the cosine is taken; models were trained with this rounding at high positions.
// REQUIRES: whole rows. Source: arXiv:2104.09864.
void FillRotaryTable(const RotarySpec& rotary, int64_t first_row, std::span<float> rows);

}  // namespace beamline
