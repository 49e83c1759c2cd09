// The two rules of beam search that the host and every device follow alike.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/beam_order.h"
#include "kernels/beam_tails.h"

namespace beamline::beam_rules_test {
namespace {

TEST(BeamTailsTest, FirstChildrenStayAndOthersTakeWhatIsLeft) {
  std::mt19937_64 random(20261122);
  for (int round = 0; round < 2000; ++round) {
    const auto num_rows = static_cast<int32_t>(1 + random() % 64);
    std::vector<int32_t> parents(num_rows);
    for (int32_t& parent : parents) parent = static_cast<int32_t>(random() % num_rows);
    if (round % 4 == 0) std::ranges::sort(parents);
    std::vector<BeamTail> tails(num_rows);
    AssignTails(parents, tails);

    std::vector<int32_t> childless;
    for (int32_t row = 0; row < num_rows; ++row) {
      if (std::ranges::count(parents, row) == 0) childless.push_back(row);
    }
    size_t next_childless = 0;
    std::vector<bool> seen(num_rows);
    for (int32_t row = 0; row < num_rows; ++row) {
      const bool first = !seen[parents[row]];
      seen[parents[row]] = true;
      EXPECT_EQ(tails[row].copied, !first);
      EXPECT_EQ(tails[row].blocks_of, first ? parents[row] : childless.at(next_childless++));
      // As a thread of a kernel does, which walks up to its own row.
      BeamTailWalk walk(parents.data(), num_rows);
      BeamTail tail = walk.Next();
      for (int32_t earlier = 0; earlier < row; ++earlier) tail = walk.Next();
      EXPECT_EQ(tail.blocks_of, tails[row].blocks_of);
      EXPECT_EQ(tail.copied, tails[row].copied);
    }
    EXPECT_EQ(next_childless, childless.size());
  }
}

TEST(BeamOrderTest, HigherScoresThenEarlierRowsGoFirst) {
  EXPECT_TRUE(GoesBefore(-1.0f, 5, -2.0f, 0));
  EXPECT_FALSE(GoesBefore(-2.0f, 0, -1.0f, 5));
  EXPECT_TRUE(GoesBefore(-1.0f, 1, -1.0f, 2));
  EXPECT_FALSE(GoesBefore(-1.0f, 2, -1.0f, 1));
  EXPECT_FALSE(GoesBefore(-1.0f, 1, -1.0f, 1));
  EXPECT_TRUE(GoesBefore(0.0f, 1, -0.0f, 2));  // equal scores
}

TEST(BeamOrderTest, NothingFollowsABanOrANan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(MayFollow(-std::numeric_limits<float>::max()));
  EXPECT_FALSE(MayFollow(BeamScore(-infinity, -3.0f)));
  EXPECT_FALSE(MayFollow(BeamScore(-1.0f, -infinity)));
  EXPECT_FALSE(MayFollow(BeamScore(-infinity, infinity)));
  EXPECT_FALSE(MayFollow(BeamScore(std::nanf(""), 1.0f)));
}

}  // namespace
}  // namespace beamline::beam_rules_test
