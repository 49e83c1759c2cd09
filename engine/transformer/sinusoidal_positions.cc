#include "engine/transformer/sinusoidal_positions.h"

#include <cmath>

namespace beamline {

std::vector<float> SinusoidalPositions(int32_t num_positions, int32_t width) {
  const int32_t num_sines = (width + 1) / 2;
  std::vector<float> table(static_cast<size_t>(num_positions) * width);
  float* row = table.data();
  for (int32_t position = 0; position < num_positions; ++position, row += width) {
    for (int32_t i = 0; i < num_sines; ++i) {
      const double angle = position / std::pow(10000.0, 2.0 * i / width);
      row[i] = static_cast<float>(std::sin(angle));
      if (num_sines + i < width) row[num_sines + i] = static_cast<float>(std::cos(angle));
    }
  }
  return table;
}

}  // namespace beamline
