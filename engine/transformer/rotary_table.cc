#include "engine/transformer/rotary_table.h"

#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace beamline {

void FillRotaryTable(const RotarySpec& rotary, int64_t first_position, std::span<float> rows) {
  const size_t half = rotary.frequencies.size();
  BEAMLINE_CHECK(half > 0 && rows.size() % (2 * half) == 0);
  auto position = static_cast<float>(first_position);
  for (size_t begin = 0; begin < rows.size(); begin += 2 * half, ++position) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = position * rotary.frequencies[i];
      rows[begin + i] = static_cast<float>(std::cos(angle)) * rotary.scale;
      rows[begin + half + i] = static_cast<float>(std::sin(angle)) * rotary.scale;
    }
  }
}

}  // namespace beamline
