#include "engine/transformer/sinusoidal_positions.h"

#include <gtest/gtest.h>

#include <cmath>

namespace beamline::sinusoidal_positions_test {
namespace {

TEST(SinusoidalPositionsTest, SinesStandBeforeCosines) {
  const std::vector<float> table = SinusoidalPositions(3, 4);
  ASSERT_EQ(table.size(), 12u);
  EXPECT_EQ(table[0], 0.0f);
  EXPECT_EQ(table[2], 1.0f);
  const float* row = table.data() + 8;
  EXPECT_FLOAT_EQ(row[0], std::sin(2.0));
  EXPECT_FLOAT_EQ(row[1], std::sin(0.02));
  EXPECT_FLOAT_EQ(row[2], std::cos(2.0));
  EXPECT_FLOAT_EQ(row[3], std::cos(0.02));
}

TEST(SinusoidalPositionsTest, AnOddWidthHasOneSineMore) {
  const std::vector<float> table = SinusoidalPositions(2, 3);
  EXPECT_FLOAT_EQ(table[3], std::sin(1.0));
  EXPECT_FLOAT_EQ(table[4], std::sin(std::pow(10000.0, -2.0 / 3.0)));
  EXPECT_FLOAT_EQ(table[5], std::cos(1.0));
}

TEST(SinusoidalPositionsTest, ShiftedOnesHaveARowAndAColumnOfZeros) {
  const std::vector<float> table = ShiftedSinusoidalPositions(4, 7, 1);
  ASSERT_EQ(table.size(), 28u);
  for (int column = 0; column < 7; ++column) EXPECT_EQ(table[7 + column], 0.0f);
  const float* row = table.data() + 21;
  EXPECT_FLOAT_EQ(row[0], std::sin(3.0f));
  EXPECT_FLOAT_EQ(row[1], std::sin(0.03f));
  EXPECT_NEAR(row[2], std::sin(0.0003), 1e-9);
  EXPECT_FLOAT_EQ(row[3], std::cos(3.0f));
  EXPECT_EQ(row[6], 0.0f);
}

}  // namespace
}  // namespace beamline::sinusoidal_positions_test
