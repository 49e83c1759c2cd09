// Computed (not learned) position embeddings.
#pragma once

#include <cstdint>
#include <vector>

namespace beamline {

// [num_positions, width]. Row p, column i < ceil(width / 2): sin(p / 10000^(2i / width)); the
// cosines are in the remaining columns. Source: arXiv:1706.03762, section 3.5, with Marian's column
// order.
std::vector<float> SinusoidalPositions(int32_t num_positions, int32_t width);

// The same with the angles p * 10000^(-i / (n - 1)) for n = floor(width / 2) sines and n cosines,
// in the float32 arithmetic of transformers' M2M100. If the width is odd, the last column is 0; the
// row `zero_row` is 0, too. REQUIRES: width >= 4.
std::vector<float> ShiftedSinusoidalPositions(int32_t num_positions, int32_t width,
                                              int32_t zero_row);

}  // namespace beamline
