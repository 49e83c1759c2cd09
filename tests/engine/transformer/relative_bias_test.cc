#include "engine/transformer/relative_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace beamline::relative_bias_test {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> Buckets(const std::vector<int32_t>& distances, bool bidirectional,
                             const RelativeSpec& relative) {
  std::vector<int32_t> buckets;
  for (const int32_t distance : distances) {
    buckets.push_back(RelativeBucket(distance, bidirectional, relative));
  }
  return buckets;
}

// T5's own sizes; the numbers are those of transformers 5.23.
TEST(RelativeBiasTest, BucketsAreTheReferences) {
  const RelativeSpec t5 = {.num_buckets = 32, .max_distance = 128, .table = ""};
  const std::vector<int32_t> distances = {-500, -128, -127, -91, -90, -64, -63, -32, -31, -16, -15,
                                          -8,   -7,   -1,   0,   1,   7,   8,   16,  64,  500};
  EXPECT_THAT(Buckets(distances, true, t5), ElementsAre(15, 15, 15, 15, 14, 14, 13, 12, 11, 10, 9,
                                                        8, 7, 1, 0, 17, 23, 24, 26, 30, 31));
  EXPECT_THAT(Buckets(distances, false, t5), ElementsAre(31, 31, 31, 29, 29, 26, 26, 21, 21, 16, 15,
                                                         8, 7, 1, 0, 0, 0, 0, 0, 0, 0));
  const RelativeSpec odd = {.num_buckets = 9, .max_distance = 21, .table = ""};
  const std::vector<int32_t> few = {-30, -21, -20, -14, -9, -6, -5, -4, -3, -2, 0, 2, 3, 9, 30};
  EXPECT_THAT(Buckets(few, true, odd), ElementsAre(3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 0, 6, 6, 7, 7));
  EXPECT_THAT(Buckets(few, false, odd), ElementsAre(8, 8, 8, 7, 6, 5, 4, 4, 3, 2, 0, 0, 0, 0, 0));
}

TEST(RelativeBiasTest, ARowIsAHeadsBiasByDistance) {
  const RelativeSpec relative = {.num_buckets = 4, .max_distance = 3, .table = ""};
  // [num_buckets, 2 heads]
  const std::vector<float> table = {0, 10, 1, 11, 2, 12, 3, 13};
  std::vector<float> rows(7);
  FillRelativeBias(relative, /*bidirectional=*/true, table, 2, 1, rows);
  EXPECT_THAT(rows, ElementsAre(11, 11, 11, 10, 13, 13, 13));
  rows.resize(14);
  FillRelativeBias(relative, /*bidirectional=*/false, table, 2, 0, rows);
  EXPECT_THAT(rows, ElementsAre(3, 2, 1, 0, 0, 0, 0, 13, 12, 11, 10, 10, 10, 10));
}

}  // namespace
}  // namespace beamline::relative_bias_test
