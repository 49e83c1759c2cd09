#include "engine/transformer/relative_bias.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace beamline {

int32_t RelativeBucket(int32_t distance, bool bidirectional, const RelativeSpec& relative) {
  const int32_t num_buckets = bidirectional ? relative.num_buckets / 2 : relative.num_buckets;
  const int32_t first = bidirectional && distance > 0 ? num_buckets : 0;
  const int32_t length = bidirectional ? std::abs(distance) : std::max(-distance, 0);
  const int32_t num_exact = num_buckets / 2;
  if (length < num_exact) return first + length;
  const float logarithm = std::log(static_cast<float>(length) / static_cast<float>(num_exact));
  const auto whole = static_cast<float>(
      std::log(static_cast<double>(relative.max_distance) / static_cast<double>(num_exact)));
  const float share = logarithm / whole * static_cast<float>(num_buckets - num_exact);
  return first + std::min(num_exact + static_cast<int32_t>(share), num_buckets - 1);
}

void FillRelativeBias(const RelativeSpec& relative, bool bidirectional,
                      std::span<const float> table, int32_t num_heads, int32_t first_head,
                      std::span<float> rows) {
  const int32_t width = 2 * relative.max_distance + 1;
  BEAMLINE_CHECK(rows.size() % static_cast<size_t>(width) == 0);
  for (int32_t column = 0; column < width; ++column) {
    const int32_t bucket = RelativeBucket(column - relative.max_distance, bidirectional, relative);
    int32_t head = first_head;
    for (size_t at = static_cast<size_t>(column); at < rows.size();
         at += static_cast<size_t>(width), ++head) {
      rows[at] = table[static_cast<size_t>(bucket) * static_cast<size_t>(num_heads) +
                       static_cast<size_t>(head)];
    }
  }
}

}  // namespace beamline
