// Whether numbers of a model are numbers (engine/serving/finite_check.h says what follows).
#pragma once

#include <span>

namespace beamline {

inline bool AreFinite(std::span<const float> values) {
  // Without a branch on each: x - x is 0, or NaN when x is not finite.
  float sum = 0.0f;
  for (const float value : values) sum += value - value;
  return sum == 0.0f;
}

}  // namespace beamline
