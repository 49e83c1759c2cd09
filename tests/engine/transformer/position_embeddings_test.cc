#include "engine/transformer/position_embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace beamline::position_embeddings_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// The rows of some distances key - query.
std::vector<int32_t> RowsAt(const DisentangledSpec& spec, int32_t max_length,
                            const std::vector<int32_t>& distances) {
  const std::vector<int32_t> rows = DistanceRows(spec, max_length);
  const auto last = static_cast<int32_t>(rows.size() / 2);
  std::vector<int32_t> found;
  for (const int32_t distance : distances) {
    found.push_back(rows[static_cast<size_t>(last + std::clamp(distance, -last, last))]);
  }
  return found;
}

// DeBERTa 3's own sizes; the numbers are those of transformers 5.24.
TEST(DistanceRowsTest, BucketsAreTheReferences) {
  const DisentangledSpec v3 = {.table = "t", .span = 256, .has_buckets = true, .max_distance = 512};
  const std::vector<int32_t> within = {-511, -510, -509, -300, -200, -130, -129, -128, -127,
                                       -1,   0,    1,    127,  128,  129,  130,  131,  140,
                                       200,  300,  400,  505,  508,  509,  510,  511};
  EXPECT_THAT(RowsAt(v3, 512, within),
              ElementsAreArray({511, 511, 511, 463, 425, 386, 385, 384, 383, 257, 256, 255, 129,
                                128, 127, 126, 125, 119, 87,  49,  23,  2,   1,   1,   1,   1}));
  const std::vector<int32_t> beyond = {-699, -560, -520, -515, -513, 512, 513,
                                       514,  515,  516,  520,  560,  699};
  EXPECT_THAT(RowsAt(v3, 700, beyond),
              ElementsAreArray({511, 511, 511, 511, 511, 0, 0, 0, 0, 0, 0, 0, 0}));
  const DisentangledSpec odd = {.table = "t", .span = 7, .has_buckets = true, .max_distance = 41};
  const std::vector<int32_t> few = {-63, -42, -41, -40, -30, -20, -12, -8, -4, -3, 0,  2,
                                    3,   4,   5,   6,   8,   12,  20,  30, 39, 40, 41, 63};
  EXPECT_THAT(RowsAt(odd, 64, few),
              ElementsAreArray({13, 13, 13, 12, 12, 12, 12, 11, 11, 10, 7, 5,
                                4,  3,  3,  3,  3,  2,  2,  2,  2,  2,  1, 1}));
}

TEST(DistanceRowsTest, WithoutBucketsFarDistancesAreOne) {
  const DisentangledSpec near = {.table = "t", .span = 3, .max_distance = 3};
  EXPECT_THAT(DistanceRows(near, 64), ElementsAre(5, 5, 4, 3, 2, 1, 0));
  EXPECT_THAT(DistanceRows(near, 2), ElementsAre(4, 3, 2));
  EXPECT_THAT(DistanceRows(near, 1), ElementsAre(3));
}

// As long as rows differ, however long sequences are.
TEST(DistanceRowsTest, AsManyAsDiffer) {
  const DisentangledSpec v3 = {.table = "t", .span = 256, .has_buckets = true, .max_distance = 512};
  const std::vector<int32_t> all = DistanceRows(v3, 1 << 14);
  EXPECT_LT(all.size(), 2u * 600);
  EXPECT_EQ(all.front(), 511);
  EXPECT_EQ(all.back(), 0);
  EXPECT_THAT(DistanceRows(v3, 512), testing::SizeIs(2 * 506 + 1));
}

}  // namespace
}  // namespace beamline::position_embeddings_test
