// Position embeddings that are computed, not learned.
#pragma once

#include <cstdint>
#include <vector>

namespace beamline {

// Row p, column i < ceil(width / 2): sin(p / 10000^(2i / width)); the cosines follow in the
// remaining columns. [num_positions, width]. Source: arXiv:1706.03762, section 3.5, with Marian's
// column order.
std::vector<float> SinusoidalPositions(int32_t num_positions, int32_t width);

// The same with the angles p * 10000^(-i / (n - 1)) of n = floor(width / 2) sines and as many
// cosines, in the float32 arithmetic of transformers' M2M100; a last odd column and the row
// `zero_row` are 0. REQUIRES: width >= 4.
std::vector<float> ShiftedSinusoidalPositions(int32_t num_positions, int32_t width,
                                              int32_t zero_row);

}  // namespace beamline
