#include "kernels/cuda/products/wgmma_tiles.h"

#include "gtest/gtest.h"

namespace beamline::cuda::wgmma_tiles_test {
namespace {

constexpr int kMultiprocessors = 132;

// A row more never goes back to a kernel for fewer rows.
TEST(WgmmaTilesTest, MoreRowsTakeLargerTiles) {
  for (const int64_t out_features : {8, 768, 3072, 16384}) {
    int last = 0;
    for (int64_t rows = 1; rows <= 70'000; rows += 1 + rows / 50) {
      const int tiles = static_cast<int>(PickWgmmaTiles(rows, out_features, kMultiprocessors));
      EXPECT_GE(tiles, last) << rows << " rows of " << out_features;
      last = tiles;
    }
  }
}

TEST(WgmmaTilesTest, TheInnerLayersOfWellKnownEncoders) {
  const auto pick = [](int64_t rows, int64_t out_features) {
    return PickWgmmaTiles(rows, out_features, kMultiprocessors);
  };
  EXPECT_EQ(pick(32, 3072), WgmmaTiles::kNone);
  EXPECT_EQ(pick(128, 3072), WgmmaTiles::kNone);
  EXPECT_EQ(pick(2048, 3072), WgmmaTiles::kNarrow);
  EXPECT_EQ(pick(32768, 3072), WgmmaTiles::kWide);
  EXPECT_EQ(pick(16384, 4096), WgmmaTiles::kWide);
}

// Tiles are numbered by 32 bits.
TEST(WgmmaTilesTest, TilesCanBeCounted) {
  EXPECT_EQ(PickWgmmaTiles(int64_t{1} << 31, 16384, kMultiprocessors), WgmmaTiles::kNone);
}

}  // namespace
}  // namespace beamline::cuda::wgmma_tiles_test
