// Knees of curves whose knees are known.
#include "loadtest/search/knee.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "loadtest/workload/random.h"

namespace beamline::loadtest::knee_test {
namespace {

using Curve = std::vector<std::pair<double, double>>;

TEST(KneeTest, IsTheCornerOfAHockeyStick) {
  Curve curve;
  for (int rate = 10; rate <= 200; rate += 10) {
    curve.emplace_back(rate, rate <= 120 ? 20 : 20 + 15 * (rate - 120));
  }
  ASSERT_TRUE(FindKnee(curve).has_value());
  EXPECT_EQ(curve[*FindKnee(curve)].first, 120);
}

// The mean time in an M/M/1 queue is 1 / (capacity - rate). Scaled to 0 .. 1 up to `share` of the
// capacity, the curve is steeper than its chord from where the derivatives are equal:
// capacity - rate = sqrt((capacity - first)(capacity - last)).
TEST(KneeTest, IsWhereAQueuesCurveIsAsSteepAsItsChord) {
  constexpr double kCapacity = 1000;
  for (const double last : {800.0, 950.0, 990.0}) {
    Curve curve;
    for (double rate = 10; rate <= last; rate += 10) {
      curve.emplace_back(rate, 1e3 / (kCapacity - rate));
    }
    const double expected = kCapacity - std::sqrt((kCapacity - 10) * (kCapacity - last));
    ASSERT_TRUE(FindKnee(curve).has_value()) << last;
    EXPECT_NEAR(curve[*FindKnee(curve)].first, expected, 5.001) << last;
  }
}

// The same shape whatever the units.
TEST(KneeTest, DoesNotDependOnTheUnits) {
  Curve curve, scaled;
  for (int i = 1; i <= 20; ++i) {
    curve.emplace_back(i, 1.0 / (21 - i));
    scaled.emplace_back(i * 1e4, 1e6 / (21 - i));
  }
  ASSERT_TRUE(FindKnee(curve).has_value());
  EXPECT_EQ(FindKnee(curve), FindKnee(scaled));
}

TEST(KneeTest, NoiseBeforeTheRiseDoesNotMoveIt) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Random random(seed);
    Curve curve;
    for (int rate = 10; rate <= 200; rate += 10) {
      const double latency = rate <= 150 ? 20 : 20 + 20 * (rate - 150);
      curve.emplace_back(rate, latency * (0.8 + 0.4 * random.Uniform()));
    }
    ASSERT_TRUE(FindKnee(curve).has_value());
    EXPECT_EQ(curve[*FindKnee(curve)].first, 150) << seed;
  }
}

TEST(KneeTest, WhatIsFlatStraightOrShortHasNone) {
  EXPECT_FALSE(FindKnee({}).has_value());
  EXPECT_FALSE(FindKnee({{1, 1}, {2, 100}}).has_value());
  EXPECT_FALSE(FindKnee({{1, 10}, {2, 10}, {3, 10}, {4, 10}}).has_value());
  EXPECT_FALSE(FindKnee({{1, 10}, {2, 9}, {3, 10.5}, {4, 14}}).has_value());  // rises too little
  EXPECT_FALSE(FindKnee({{1, 10}, {2, 20}, {3, 30}, {4, 40}}).has_value());
  EXPECT_FALSE(FindKnee({{1, 10}, {2, 80}, {3, 95}, {4, 100}}).has_value());  // bends down
  EXPECT_FALSE(FindKnee({{1, 100}, {2, 50}, {3, 10}}).has_value());           // falls
  EXPECT_FALSE(FindKnee({{5, 1}, {5, 10}, {5, 100}}).has_value());            // one rate
}

TEST(KneeTest, WhatIsNotFiniteIsLeftOut) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Curve curve = {{1, kNan}, {2, 10}, {4, 10}, {6, kInfinity}, {8, 11}, {9, 100}};
  ASSERT_TRUE(FindKnee(curve).has_value());
  EXPECT_EQ(*FindKnee(curve), 4U);
}

// Of equally far points the one with the highest rate: what is flat lies wholly before the knee.
TEST(KneeTest, OfEquallyFarPointsIsTheLast) {
  const Curve curve = {{0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 4}};
  ASSERT_TRUE(FindKnee(curve).has_value());
  EXPECT_EQ(*FindKnee(curve), 3U);
}

}  // namespace
}  // namespace beamline::loadtest::knee_test
