#include "engine/transformer/rotary_table.h"

#include <cmath>
#include <cstddef>

namespace beamline {

std::vector<float> RotaryTable(const RotarySpec& rotary, int32_t num_positions) {
  const size_t half = rotary.frequencies.size();
  std::vector<float> table(static_cast<size_t>(num_positions) * 2 * half);
  float* row = table.data();
  for (int32_t position = 0; position < num_positions; ++position, row += 2 * half) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<float>(position) * rotary.frequencies[i];
      row[i] = static_cast<float>(std::cos(angle)) * rotary.scale;
      row[half + i] = static_cast<float>(std::sin(angle)) * rotary.scale;
    }
  }
  return table;
}

}  // namespace beamline
