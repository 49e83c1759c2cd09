#include "engine/transformer/rotary_table.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "base/check.h"

namespace beamline {

void FillRotaryTable(const RotarySpec& rotary, int64_t first_row, std::span<float> rows) {
  const size_t half = rotary.frequencies.size();
  BEAMLINE_CHECK(half > 0 && rows.size() % (2 * half) == 0);
  BEAMLINE_CHECK(rotary.long_frequencies.size() == (rotary.original_positions > 0 ? half : 0));
  int64_t row = first_row;
  for (size_t begin = 0; begin < rows.size(); begin += 2 * half, ++row) {
    const bool is_long = rotary.original_positions > 0 && row >= rotary.original_positions;
    const std::vector<float>& frequencies = is_long ? rotary.long_frequencies : rotary.frequencies;
    const auto position = static_cast<float>(is_long ? row - rotary.original_positions : row);
    for (size_t i = 0; i < half; ++i) {
      const double angle = position * frequencies[i];
      rows[begin + i] = static_cast<float>(std::cos(angle)) * rotary.scale;
      rows[begin + half + i] = static_cast<float>(std::sin(angle)) * rotary.scale;
    }
  }
}

}  // namespace beamline
