#include "kernels/beam_tails.h"

#include <algorithm>

#include "base/check.h"

namespace beamline {

void AssignTails(std::span<const int32_t> parents, std::span<BeamTail> tails) {
  BEAMLINE_CHECK(parents.size() == tails.size());
  int32_t childless = -1;
  const auto next_childless = [&] {
    do {
      ++childless;
    } while (std::ranges::find(parents, childless) != parents.end());
    return childless;
  };
  for (size_t i = 0; i < parents.size(); ++i) {
    const auto earlier = parents.first(i);
    const bool first = std::ranges::find(earlier, parents[i]) == earlier.end();
    tails[i] = {first ? parents[i] : next_childless(), !first};
  }
}

}  // namespace beamline
