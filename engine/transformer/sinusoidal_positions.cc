#include "engine/transformer/sinusoidal_positions.h"

#include <cmath>

#include "base/check.h"

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

std::vector<float> ShiftedSinusoidalPositions(int32_t num_positions, int32_t width,
                                              int32_t zero_row) {
  BEAMLINE_CHECK(width >= 4);
  const int32_t num_sines = width / 2;
  const auto step = static_cast<float>(-std::log(10000.0) / (num_sines - 1));
  std::vector<float> table(static_cast<size_t>(num_positions) * width, 0.0f);
  for (int32_t i = 0; i < num_sines; ++i) {
    const float frequency = std::exp(static_cast<float>(i) * step);
    for (int32_t position = 0; position < num_positions; ++position) {
      if (position == zero_row) continue;
      const float angle = static_cast<float>(position) * frequency;
      float* const row = table.data() + static_cast<size_t>(position) * width;
      row[i] = std::sin(angle);
      row[num_sines + i] = std::cos(angle);
    }
  }
  return table;
}

}  // namespace beamline
