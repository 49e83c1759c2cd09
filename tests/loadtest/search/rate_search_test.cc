#include "loadtest/search/rate_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "loadtest/workload/random.h"

namespace beamline::loadtest::rate_search_test {
namespace {

using ::testing::ElementsAre;

// The rates that are probed.
std::vector<double> Search(RateSearch& search, const std::function<bool(double)>& holds) {
  std::vector<double> rates;
  while (const auto rate = search.Next()) {
    rates.push_back(*rate);
    search.Add(*rate, holds(*rate));
    EXPECT_LT(rates.size(), 1000U);
    if (rates.size() >= 1000) break;
  }
  return rates;
}

TEST(RateSearchTest, GrowsThenNarrows) {
  RateSearch search({.lowest = 10, .highest = 10'000, .growth = 2, .precision = 0.1});
  EXPECT_THAT(Search(search, [](double rate) { return rate <= 100; }),
              ElementsAre(10, 20, 40, 80, 160, 113, 95.1, 104));
  EXPECT_EQ(search.holding(), 95.1);
  EXPECT_EQ(search.failing(), 104);
  EXPECT_FALSE(search.HoldsAtTop());
}

// For any limit in the range, within the precision and few probes.
TEST(RateSearchTest, FindsAnyLimitWithinThePrecision) {
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    const double limit = std::pow(10, random.Uniform() * 5);
    const RateSearch::Range range{.lowest = 1,
                                  .highest = 1e6,
                                  .growth = 1.1 + 4 * random.Uniform(),
                                  .precision = 0.001 + 0.2 * random.Uniform()};
    RateSearch search(range);
    Search(search, [limit](double rate) { return rate <= limit; });
    ASSERT_TRUE(search.holding() && search.failing()) << limit;
    EXPECT_LE(*search.holding(), limit);
    EXPECT_GT(*search.failing(), limit);
    EXPECT_LE(*search.failing(), *search.holding() * (1 + range.precision) * (1 + 1e-9));
  }
}

TEST(RateSearchTest, EvenTheLowestFails) {
  RateSearch search({.lowest = 10, .highest = 100});
  EXPECT_THAT(Search(search, [](double) { return false; }), ElementsAre(10));
  EXPECT_FALSE(search.holding().has_value());
  EXPECT_EQ(search.failing(), 10);
}

TEST(RateSearchTest, TheHighestHolds) {
  RateSearch search({.lowest = 10, .highest = 70});
  EXPECT_THAT(Search(search, [](double) { return true; }), ElementsAre(10, 20, 40, 70));
  EXPECT_TRUE(search.HoldsAtTop());
  EXPECT_FALSE(search.failing().has_value());
  RateSearch one({.lowest = 10, .highest = 10});
  EXPECT_THAT(Search(one, [](double) { return true; }), ElementsAre(10));
  EXPECT_TRUE(one.HoldsAtTop());
}

TEST(RateSearchTest, ARateFailsWhenItDoesInEveryTry) {
  RateSearch search({.lowest = 10, .highest = 40, .growth = 2, .precision = 0.5}, /*tries=*/2);
  int count = 0;
  // 20 fails once, 40 twice, the 28.3 between them holds.
  const auto rates = Search(search, [&](double rate) {
    ++count;
    return rate == 20 ? count == 3 : rate < 40;
  });
  EXPECT_THAT(rates, ElementsAre(10, 20, 20, 40, 40, 28.3));
  EXPECT_EQ(search.holding(), 28.3);
  EXPECT_EQ(search.failing(), 40);
}

// Middles of three digits may be the ends themselves.
TEST(RateSearchTest, APrecisionBeyondThreeDigitsEnds) {
  RateSearch search({.lowest = 100, .highest = 1000, .growth = 1.01, .precision = 0.0001});
  Search(search, [](double rate) { return rate <= 543.21; });
  EXPECT_NEAR(*search.holding(), 543.21, 0.06);
}

}  // namespace
}  // namespace beamline::loadtest::rate_search_test
