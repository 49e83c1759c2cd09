// Position embeddings that are computed, not learned.
#pragma once

#include <cstdint>
#include <vector>

namespace beamline {

// Row p, column i < ceil(width / 2): sin(p / 10000^(2i / width)); the cosines follow in the
// remaining columns. [num_positions, width]. Source: arXiv:1706.03762, section 3.5, with Marian's
// column order.
std::vector<float> SinusoidalPositions(int32_t num_positions, int32_t width);

}  // namespace beamline
