#include "kernels/cuda/products/stream_split.h"

#include "base/math.h"

namespace beamline::cuda {

int64_t StreamRankColumns(int64_t in_features, int split) {
  return split == 1 ? in_features
                    : RoundUp(CeilDiv(in_features, int64_t{split}), int64_t{kStreamRankColumns});
}

std::optional<int> PickStreamSplit(int64_t in_features, StreamSplit wanted) {
  for (int split = 1; split <= kStreamMostSplit; split *= 2) {
    if (wanted != StreamSplit::kAsFits && split != static_cast<int>(wanted)) continue;
    const int64_t columns = StreamRankColumns(in_features, split);
    if (columns <= kStreamMostColumns && columns * (split - 1) < in_features) return split;
  }
  return std::nullopt;
}

}  // namespace beamline::cuda
