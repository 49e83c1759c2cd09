#include "loadtest/workload/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/test_seed.h"

namespace beamline::loadtest::arrivals_test {
namespace {

std::vector<double> DrawSeconds(const ArrivalOptions& options, int count) {
  Arrivals arrivals(options);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    times.push_back(std::chrono::duration<double>(arrivals.Next()).count());
  }
  return times;
}

std::vector<double> Gaps(const std::vector<double>& times) {
  std::vector<double> gaps;
  for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  return gaps;
}

TEST(ArrivalsTest, PoissonGapsAreExponential) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  const double rate = 250;
  std::vector<double> gaps = Gaps(DrawSeconds({.rate = rate, .seed = seed}, 20'001));
  // Kolmogorov and Smirnov's distance to 1 - exp(-rate t); above 3 / sqrt(n) once in 30 million.
  std::sort(gaps.begin(), gaps.end());
  const auto n = static_cast<double>(gaps.size());
  double distance = 0;
  for (size_t i = 0; i < gaps.size(); ++i) {
    const double expected = 1 - std::exp(-rate * gaps[i]);
    distance = std::max({distance, std::abs(expected - static_cast<double>(i) / n),
                         std::abs(expected - static_cast<double>(i + 1) / n)});
  }
  EXPECT_LT(distance, 3 / std::sqrt(n));
}

TEST(ArrivalsTest, PoissonCountsHaveTheVarianceOfTheirMean) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(seed);
  const double rate = 20;
  const int num_seconds = 2000;
  std::vector<double> counts(num_seconds);
  for (const double time : DrawSeconds({.rate = rate, .seed = seed}, 50'000)) {
    if (time < num_seconds) counts[static_cast<size_t>(time)] += 1;
  }
  double mean = 0;
  for (const double count : counts) mean += count / num_seconds;
  double variance = 0;
  for (const double count : counts) variance += (count - mean) * (count - mean) / num_seconds;
  // Five standard errors: sqrt(20 / 2000) = 0.1 and, of the variance, 20 * sqrt(2 / 2000) = 0.63.
  EXPECT_NEAR(mean, rate, 0.5);
  EXPECT_NEAR(variance, rate, 3.2);
}

TEST(ArrivalsTest, ConstantGapsAreEqual) {
  for (const double gap : Gaps(DrawSeconds({.kind = ArrivalKind::kConstant, .rate = 400}, 1000))) {
    EXPECT_NEAR(gap, 0.0025, 2e-9);
  }
}

TEST(ArrivalsTest, BurstsArriveAtOnceAndKeepTheRate) {
  const std::vector<double> times =
      DrawSeconds({.kind = ArrivalKind::kBurst, .rate = 100, .burst_size = 20}, 100);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_NEAR(times[i], 0.2 * static_cast<double>(i / 20), 1e-9);
  }
}

TEST(ArrivalsTest, TheSeedDecides) {
  const ArrivalOptions options{.rate = 10, .seed = 7};
  EXPECT_EQ(DrawSeconds(options, 1000), DrawSeconds(options, 1000));
  EXPECT_NE(DrawSeconds(options, 1000), DrawSeconds({.rate = 10, .seed = 8}, 1000));
}

TEST(ArrivalsTest, NamesAreChecked) {
  EXPECT_EQ(*ParseArrivalKind("burst"), ArrivalKind::kBurst);
  EXPECT_EQ(ParseArrivalKind("gamma").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace beamline::loadtest::arrivals_test
