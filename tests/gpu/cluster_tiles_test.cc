#include "kernels/cuda/products/cluster_tiles.h"

#include "base/math.h"
#include "gtest/gtest.h"

namespace beamline::cuda::cluster_tiles_test {
namespace {

constexpr int kMultiprocessors = 132;

// Whatever the sizes, what is picked is what the kernel has.
TEST(ClusterTilesTest, TilesThatTheKernelHas) {
  for (const int64_t in_features : {1, 64, 100, 512, 768, 1024, 3072, 4096, 14336}) {
    for (const int64_t out_features : {1, 64, 512, 2304, 3072, 4096, 50257}) {
      for (int64_t rows = 1; rows <= 70'000; rows += 1 + rows / 10) {
        const ClusterTiles tiles =
            PickClusterTiles(rows, in_features, out_features, kMultiprocessors);
        if (tiles.rows == 0) continue;
        EXPECT_TRUE(tiles.rows == 32 || tiles.rows == 64);
        EXPECT_TRUE(tiles.split == 1 || tiles.split == 2 || tiles.split == 4 || tiles.split == 8);
        EXPECT_LE(in_features, int64_t{kClusterDepth} * kMostClusterSteps * tiles.split);
      }
    }
  }
}

TEST(ClusterTilesTest, TheLayersOfABaseEncoder) {
  const auto split = [](int64_t rows, int64_t in_features, int64_t out_features) {
    const ClusterTiles tiles = PickClusterTiles(rows, in_features, out_features, kMultiprocessors);
    return tiles.rows == 0 ? 0 : tiles.split;
  };
  // Queries, keys and values; output; feed forward; and back.
  EXPECT_EQ(split(32, 768, 2304), 2);
  EXPECT_EQ(split(32, 768, 768), 4);
  EXPECT_EQ(split(32, 768, 3072), 2);
  EXPECT_EQ(split(32, 3072, 768), 8);
  for (const auto& [in_features, out_features] :
       {std::pair(768, 2304), {768, 768}, {768, 3072}, {3072, 768}}) {
    EXPECT_NE(split(128, in_features, out_features), 0);
    EXPECT_EQ(split(1024, in_features, out_features), 0) << "cuBLASLt's tiles fill the GPU";
  }
}

}  // namespace
}  // namespace beamline::cuda::cluster_tiles_test
