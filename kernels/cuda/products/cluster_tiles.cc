#include "kernels/cuda/products/cluster_tiles.h"

#include "base/math.h"

namespace beamline::cuda {

ClusterTiles PickClusterTiles(int64_t num_rows, int64_t in_features, int64_t out_features,
                              int num_multiprocessors) {
  constexpr int64_t kManySteps = 6, kMostSteps = 8, kMostBlocks = 200;
  ClusterTiles tiles;
  const int64_t steps = CeilDiv(in_features, int64_t{kClusterDepth});
  // Chosen by docs/results/notes-encoder.md. Blocks have few steps each, as long as there are no
  // more blocks than multiprocessors. There are more only if a block would otherwise have many
  // steps. If many steps or many blocks remain, cuBLASLt's tiles are faster.
  tiles.rows = num_rows <= 32 ? 32 : 64;
  const int64_t whole =
      CeilDiv(out_features, int64_t{kClusterFeatures}) * CeilDiv(num_rows, int64_t{tiles.rows});
  while (tiles.split < 8) {
    const int64_t twice = 2 * tiles.split;
    const bool deep = steps > kManySteps * tiles.split && whole * twice <= kMostBlocks;
    const bool fits = whole * twice <= num_multiprocessors &&
                      steps >= (whole * twice <= num_multiprocessors / 2 ? 2 : 3) * twice;
    if (!deep && !fits) break;
    tiles.split *= 2;
  }
  if (steps > kMostSteps * tiles.split || whole * tiles.split > kMostBlocks) return {};
  return tiles;
}

}  // namespace beamline::cuda
