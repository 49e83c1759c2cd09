// The division into tiles of the products of cluster_product.cu, chosen by sizes alone, without a
// GPU.
#pragma once

#include <cstdint>

namespace beamline::cuda {

struct ClusterTiles {
  int rows = 0;   // of a tile: 32 or 64; 0: another kernel is faster
  int split = 1;  // blocks that divide the input features of a tile: 1, 2, 4 or 8
};

inline constexpr int kClusterFeatures = 64;   // output features of a tile
inline constexpr int kClusterDepth = 64;      // input features of a step
inline constexpr int kMostClusterSteps = 16;  // of a block

ClusterTiles PickClusterTiles(int64_t num_rows, int64_t in_features, int64_t out_features,
                              int num_multiprocessors);

}  // namespace beamline::cuda
