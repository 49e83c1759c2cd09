#include "loadtest/workload/rate_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loadtest/workload/arrivals.h"

namespace beamline::loadtest::rate_profile_test {
namespace {

using ::testing::HasSubstr;

TEST(RateProfileTest, CountsTheAreaBelowTheRates) {
  const RateProfile profile({{10, 10, 5}, {10, 30, 4}, {0, 0, 2}, {50, 50, 1}});
  EXPECT_DOUBLE_EQ(profile.CountAt(-1), 0);
  EXPECT_DOUBLE_EQ(profile.CountAt(5), 50);
  EXPECT_DOUBLE_EQ(profile.CountAt(7), 50 + 2 * (10 + 20) / 2.0);
  EXPECT_DOUBLE_EQ(profile.CountAt(9), 130);
  EXPECT_DOUBLE_EQ(profile.CountAt(10.5), 130);
  EXPECT_DOUBLE_EQ(profile.CountAt(12), 180);
  EXPECT_DOUBLE_EQ(profile.CountAt(14), 280);  // the last rate goes on
}

TEST(RateProfileTest, TimesAreTheInverseOfCounts) {
  for (const std::vector<RatePhase>& phases :
       {std::vector<RatePhase>{{10, 10, 5}, {10, 30, 4}, {30, 5, 3}},
        std::vector<RatePhase>{{0, 40, 10}}, std::vector<RatePhase>{{40, 0, 10}},
        std::vector<RatePhase>{{7, 7, 1}}}) {
    const RateProfile profile(phases);
    double before = -1;
    for (double count = 0; count < 120; count += 0.5) {
      const double time = profile.TimeOf(count);
      EXPECT_GE(time, before);
      EXPECT_NEAR(profile.CountAt(time), count, 1e-6);
      before = time;
    }
  }
}

TEST(RateProfileTest, APauseHasNoArrivals) {
  const RateProfile profile({{0, 0, 3}, {10, 10, 1}, {0, 0, 2}, {10, 10, 1}});
  EXPECT_DOUBLE_EQ(profile.TimeOf(0), 3);
  EXPECT_DOUBLE_EQ(profile.TimeOf(10), 6);
  EXPECT_EQ(RateProfile({{10, 10, 1}, {0, 0, 1}}).TimeOf(11), RateProfile::kNever);
}

TEST(RateProfileTest, ArrivalsFollowIt) {
  for (const auto kind : {ArrivalKind::kPoisson, ArrivalKind::kConstant}) {
    Arrivals arrivals({.kind = kind, .phases = {{100, 100, 10}, {100, 500, 10}}, .seed = 3});
    std::vector<int> counts(20);
    for (auto time = arrivals.Next(); time < std::chrono::seconds(20); time = arrivals.Next()) {
      ++counts[static_cast<size_t>(time / std::chrono::seconds(1))];
    }
    EXPECT_NEAR(counts[2], 100, 50);  // five standard deviations
    EXPECT_NEAR(counts[12], 200, 71);
    EXPECT_NEAR(counts[19], 480, 110);
  }
}

TEST(RateProfileTest, TextsAreChecked) {
  const auto ramp = ParseRatePhase("--phase", "0.5..200:30");
  ASSERT_TRUE(ramp.ok()) << ramp.status();
  EXPECT_EQ(ramp->from, 0.5);
  EXPECT_EQ(ramp->to, 200);
  EXPECT_EQ(ramp->seconds, 30);
  const auto step = ParseRatePhase("--phase", "5:1.5");
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->to, 5);
  for (const char* wrong : {"", "5", ":", "5:", ":5", "5:0", "-1:5", "1..:5", "..2:5", "1..2..3:5",
                            "1:2:3", "nan:5", "1e7:5", "1:1e6", "5 :1"}) {
    const auto phase = ParseRatePhase("--phase", wrong);
    ASSERT_EQ(phase.status().code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_THAT(std::string(phase.status().message()), HasSubstr("--phase is '"));
    EXPECT_THAT(std::string(phase.status().message()), HasSubstr("FROM..TO:SECONDS"));
  }
}

}  // namespace
}  // namespace beamline::loadtest::rate_profile_test
