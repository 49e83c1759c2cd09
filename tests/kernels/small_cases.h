// Fewer shapes for a GPU under compute-sanitizer, which runs ten to a hundred times slower there:
// one of every kind that takes a kernel of its own.
#pragma once

#include <cstdlib>
#include <string_view>
#include <vector>

namespace beamline {

// Set by scripts/gpu_lane.py.
inline bool SmallCases() {
  const char* small = std::getenv("BEAMLINE_SMALL_CASES");
  return small != nullptr && std::string_view(small) == "1";
}

template <typename T>
std::vector<T> Cases(std::vector<T> all, std::vector<T> small) {
  return SmallCases() ? small : all;
}

}  // namespace beamline
