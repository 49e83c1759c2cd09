// What steps and answers of known speeds show, and for how long it is believed.
#include "engine/scheduling/service_rate.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/test_seed.h"

namespace beamline::service_rate_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Clock::time_point kStart = Clock::time_point(std::chrono::hours(1));

// Steps of 10 ms that serve `served` each and complete one request.
Clock::time_point Serve(ServiceRate& rate, int steps, int64_t served, Clock::time_point now,
                        bool left_waiting = true) {
  for (int i = 0; i < steps; ++i) {
    now += milliseconds(10);
    rate.AddStep({.seconds = 0.01, .served = served, .answers = 1, .left_waiting = left_waiting},
                 now);
  }
  return now;
}

TEST(ServiceRateTest, NothingIsKnownBeforeEnoughIsMeasured) {
  ServiceRate rate;
  EXPECT_FALSE(rate.cost_per_second(kStart).has_value());
  EXPECT_EQ(rate.SecondsFor(100, kStart), 0);
  const auto now = Serve(rate, ServiceRate::kLeastAnswers - 1, 50, kStart);
  EXPECT_FALSE(rate.cost_per_second(now).has_value());
  const auto then = Serve(rate, 1, 50, now);
  ASSERT_TRUE(rate.cost_per_second(then).has_value());
  EXPECT_NEAR(*rate.cost_per_second(then), 5000, 1);
}

TEST(ServiceRateTest, WithoutAnswersTheStepsOfASecondTell) {
  ServiceRate rate;
  Clock::time_point now = kStart;
  const auto serve = [&] {
    now += milliseconds(100);
    rate.AddStep({.seconds = 0.1, .served = 10, .left_waiting = true}, now);
  };
  for (int i = 0; i < 5; ++i) serve();
  EXPECT_FALSE(rate.cost_per_second(now).has_value());
  for (int i = 0; i < 10; ++i) serve();
  ASSERT_TRUE(rate.cost_per_second(now).has_value());
  EXPECT_NEAR(*rate.cost_per_second(now), 100, 1);
}

TEST(ServiceRateTest, WithoutAnswersWhatEarlierOnesDidNotNeedIsLeftOut) {
  ServiceRate rate;
  Clock::time_point now = kStart;
  // Texts that may take 100 tokens, of which they take 20: in steps of ten, nobody waiting.
  for (int i = 0; i < 50; ++i) {
    now += milliseconds(100);
    rate.AddStep({.seconds = 0.1,
                  .served = 10 + 80,
                  .unneeded = 80,
                  .answers = i % 2,
                  .answered_cost = i % 2 * 100},
                 now);
  }
  EXPECT_FALSE(rate.cost_per_second(now).has_value());
  // A burst of such, long before its first answer.
  for (int i = 0; i < 15; ++i) {
    now += milliseconds(100);
    rate.AddStep({.seconds = 0.1, .served = 10, .left_waiting = true}, now);
  }
  ASSERT_TRUE(rate.cost_per_second(now).has_value());
  EXPECT_NEAR(*rate.cost_per_second(now), 500, 1);
}

TEST(ServiceRateTest, OneAnswerTellsNothingOfTheOthers) {
  ServiceRate rate;
  Clock::time_point now = kStart;
  for (int i = 0; i < 15; ++i) {
    now += milliseconds(100);
    rate.AddStep({.seconds = 0.1,
                  .served = i == 0 ? 500 : 10,
                  .unneeded = i == 0 ? 490 : 0,
                  .answers = i == 0 ? 1 : 0,
                  .answered_cost = i == 0 ? 500 : 0,
                  .left_waiting = true},
                 now);
  }
  ASSERT_TRUE(rate.cost_per_second(now).has_value());
  EXPECT_LT(*rate.cost_per_second(now), 500);
}

TEST(ServiceRateTest, StepsThatLeftNobodyWaitingTellNothing) {
  ServiceRate rate;
  const auto now = Serve(rate, 1000, 1, kStart, /*left_waiting=*/false);
  EXPECT_FALSE(rate.cost_per_second(now).has_value());
  const auto then = Serve(rate, 20, 100, now);
  EXPECT_NEAR(*rate.cost_per_second(then), 10000, 1);
}

TEST(ServiceRateTest, ARateThatNothingConfirmsIsForgotten) {
  ServiceRate rate;
  const auto now = Serve(rate, 100, 1, kStart);
  EXPECT_TRUE(rate.cost_per_second(now + ServiceRate::kHolds).has_value());
  EXPECT_FALSE(rate.cost_per_second(now + ServiceRate::kHolds + milliseconds(1)).has_value());
  // What comes after says nothing of what was before.
  const auto again = now + seconds(100);
  const auto few = Serve(rate, ServiceRate::kLeastAnswers - 1, 70, again);
  EXPECT_FALSE(rate.cost_per_second(few).has_value());
  EXPECT_NEAR(*rate.cost_per_second(Serve(rate, 1, 70, few)), 7000, 1);
}

TEST(ServiceRateTest, LongStepsAreBelievedAsLongAsTheyTake) {
  ServiceRate rate;
  Clock::time_point now = kStart;
  for (int i = 0; i < ServiceRate::kLeastAnswers; ++i) {
    now += seconds(5);
    rate.AddStep({.seconds = 5, .served = 10, .answers = 1, .left_waiting = true}, now);
  }
  EXPECT_TRUE(rate.cost_per_second(now + seconds(10)).has_value());
  EXPECT_FALSE(rate.cost_per_second(now + seconds(21)).has_value());
}

TEST(ServiceRateTest, FollowsWhatChanges) {
  ServiceRate rate;
  auto now = Serve(rate, 500, 100, kStart);
  now += seconds(1) / 2;
  rate.AddStep({.seconds = 30, .served = 10, .left_waiting = true},
               now);  // the process stood still
  EXPECT_LT(*rate.cost_per_second(now), 100);
  now = Serve(rate, 600, 100, now);  // 6 s
  EXPECT_NEAR(*rate.cost_per_second(now), 10000, 600);
}

TEST(ServiceRateTest, AnAnswersTimeGoesByItsSteps) {
  ServiceRate rate;
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 200; ++i) {
    const auto steps = static_cast<int64_t>(1 + random() % 100);
    rate.AddAnswer(steps, 0.002 * static_cast<double>(steps), kStart);
  }
  EXPECT_NEAR(rate.SecondsFor(50, kStart), 0.1, 1e-6);
  // It counts half each second without another.
  EXPECT_NEAR(rate.SecondsFor(50, kStart + seconds(1)), 0.05, 1e-6);
  EXPECT_LT(rate.SecondsFor(50, kStart + seconds(10)), 1e-3);
  EXPECT_NEAR(rate.SecondsFor(50, kStart - seconds(1)), 0.1, 1e-6);
}

// What steps say of others, before anything had to wait.
TEST(ServiceRateTest, ExpectsWhatStepsAndAnswersSayTogether) {
  ServiceRate rate;
  rate.Expect(1000, 0.01);
  EXPECT_FALSE(rate.expected_cost_per_second().has_value());  // no answer tells what they need
  EXPECT_EQ(rate.SecondsForNew(10, kStart), 0);
  // Texts that take half of what they may.
  for (int i = 0; i < ServiceRate::kLeastAnswers; ++i) {
    rate.AddStep(
        {.seconds = 0.1, .served = 100, .unneeded = 50, .answers = 1, .answered_cost = 100},
        kStart);
    rate.AddAnswer(100, 0.2, kStart);
  }
  EXPECT_FALSE(rate.cost_per_second(kStart).has_value());
  rate.Expect(1000, 0.01);
  ASSERT_TRUE(rate.expected_cost_per_second().has_value());
  EXPECT_NEAR(*rate.expected_cost_per_second(), 2000, 1e-6);
  // Steps become longer when more run, and answers do not show it yet; or it is the other way.
  EXPECT_NEAR(rate.SecondsForNew(100, kStart), 0.5, 1e-6);
  EXPECT_NEAR(rate.SecondsFor(100, kStart), 0.2, 1e-6);
  rate.Expect(1000, 0.001);
  EXPECT_NEAR(rate.SecondsForNew(100, kStart), 0.2, 1e-6);
  rate.Expect(0, 0);
  EXPECT_FALSE(rate.expected_cost_per_second().has_value());
}

TEST(ServiceRateTest, AWrongAnswerTimeIsCorrectedByFewAnswers) {
  ServiceRate rate;
  for (int i = 0; i < 20; ++i) rate.AddAnswer(10, 10, kStart);
  for (int i = 0; i < 80; ++i) rate.AddAnswer(10, 0.01, kStart);
  EXPECT_LT(rate.SecondsFor(10, kStart), 0.2);
}

}  // namespace
}  // namespace beamline::service_rate_test
