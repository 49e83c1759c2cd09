#include "loadtest/report/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/test_seed.h"

namespace beamline::loadtest::histogram_test {
namespace {

constexpr double kQuantiles[] = {0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};

// The smallest value that a share `quantile` of all values does not exceed.
int64_t ExactQuantile(const std::vector<int64_t>& sorted, double quantile) {
  const double rank = std::ceil(quantile * static_cast<double>(sorted.size()) - 1e-6);
  return sorted[static_cast<size_t>(std::max(1.0, rank)) - 1];
}

TEST(HistogramTest, EmptyIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.ValueAtQuantile(0.99), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_TRUE(histogram.Buckets().empty());
}

TEST(HistogramTest, KeepsThreeDigitsOverTheWholeRange) {
  const auto seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(0, 18);
  Histogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(static_cast<int64_t>(std::pow(10.0, exponent(random))));
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double quantile : kQuantiles) {
    const int64_t exact = ExactQuantile(values, quantile);
    const int64_t found = histogram.ValueAtQuantile(quantile);
    EXPECT_GE(found, exact) << quantile;
    EXPECT_LE(static_cast<double>(found), static_cast<double>(exact) * 1.001) << quantile;
  }
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
}

TEST(HistogramTest, SmallValuesAreExact) {
  Histogram histogram;
  for (int value = 0; value < 2048; ++value) histogram.Record(value);
  for (int value = 0; value < 2048; ++value) {
    EXPECT_EQ(histogram.ValueAtQuantile((value + 1) / 2048.0), value);
  }
}

TEST(HistogramTest, BucketBordersHoldAndAreContiguous) {
  for (int bits = 1; bits < 63; ++bits) {
    for (const int64_t offset : {-1, 0, 1}) {
      const int64_t value = (int64_t{1} << bits) + offset;
      Histogram histogram;
      histogram.Record(value);
      histogram.Record(INT64_MAX);  // so that max() does not bound the answer
      const int64_t highest = histogram.Buckets().front().highest;
      ASSERT_GE(highest, value);
      ASSERT_LE(highest - value, value >> 10);
      Histogram next;
      next.Record(highest + 1);
      ASSERT_GT(next.Buckets().front().highest, highest);
    }
  }
}

TEST(HistogramTest, MergedIsAsIfRecordedTogether) {
  const auto seed = TestSeed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> latency(15, 1.5);
  Histogram one;
  Histogram other;
  Histogram together;
  for (int i = 0; i < 10'000; ++i) {
    const auto value = static_cast<int64_t>(latency(random));
    (i % 3 == 0 ? one : other).Record(value);
    together.Record(value);
  }
  one.Merge(other);
  one.Merge(Histogram());
  EXPECT_EQ(one.count(), together.count());
  EXPECT_EQ(one.min(), together.min());
  EXPECT_EQ(one.max(), together.max());
  EXPECT_NEAR(one.Mean(), together.Mean(), 1e-6 * together.Mean());
  EXPECT_NEAR(one.StandardDeviation(), together.StandardDeviation(),
              1e-6 * together.StandardDeviation());
  for (const double quantile : kQuantiles) {
    EXPECT_EQ(one.ValueAtQuantile(quantile), together.ValueAtQuantile(quantile));
  }
}

TEST(HistogramTest, MeanAndDeviationAreExact) {
  Histogram histogram;
  histogram.Record(2, 3);
  histogram.Record(10);
  histogram.Record(-5);  // counts as 0
  EXPECT_DOUBLE_EQ(histogram.Mean(), 16.0 / 5);
  EXPECT_NEAR(histogram.StandardDeviation(), std::sqrt(112.0 / 5 - 3.2 * 3.2), 1e-12);
}

}  // namespace
}  // namespace beamline::loadtest::histogram_test
