// Goodput under overload, on a simulated clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <random>
#include <string>

#include "engine/serving/outlook.h"
#include "engine/serving/refused_length.h"
#include "tests/engine/serving/overload_simulation.h"
#include "tests/sanitized.h"
#include "tests/test_seed.h"

namespace beamline::overload_test {
namespace {

using overload_simulation::Counts;
using overload_simulation::Scenario;
using overload_simulation::Simulation;

TEST(OverloadTest, GoodputIsThePeakAtAnyLoad) {
  for (const double load : {1.15, 3.0, 10.0}) {
    if (kSanitized && load != 3.0) continue;
    for (const std::optional<double> deadline : {std::optional(1.0), std::optional(4.0)}) {
      for (const int clients : {1, 100}) {
        Scenario scenario = {.deadline = deadline, .num_clients = clients};
        Simulation simulation(scenario);
        scenario.requests_per_second = load * simulation.Peak();
        simulation.SetScenario(scenario);
        simulation.Run(10);
        simulation.TakeCounts();
        simulation.Run(30);
        const Counts counts = simulation.TakeCounts();
        SCOPED_TRACE(std::to_string(load) + "x, deadline " + std::to_string(*deadline) + ", " +
                     std::to_string(clients) + " clients");
        EXPECT_GE(counts.answered, 0.9 * 30 * simulation.Peak())
            << "late " << counts.late << ", refused " << counts.refused << ", hopeless "
            << counts.hopeless;
        EXPECT_LE(counts.wasted, 0.05 * counts.work);
        EXPECT_GT(counts.refused, 0);
      }
    }
  }
}

// All that can run would take longer together than any of them may: at once, before a request has
// ever been answered.
TEST(OverloadTest, GoodputIsThePeakWhereTheWholeWidthIsTooSlow) {
  for (const double deadline : {1.0, 4.0}) {
    Scenario scenario = {.deadline = deadline};
    scenario.row = deadline / 256 / 10;  // 256 answers of 20 steps each take twice the deadline
    Simulation simulation(scenario);
    scenario.requests_per_second = 10 * simulation.Peak();
    simulation.SetScenario(scenario);
    simulation.Run(5 * deadline);
    simulation.TakeCounts();
    simulation.Run(10 * deadline);
    const Counts counts = simulation.TakeCounts();
    EXPECT_GE(counts.answered, 0.82 * 10 * deadline * simulation.Peak())
        << "late " << counts.late << ", refused " << counts.refused;
  }
}

TEST(OverloadTest, NobodyIsRefusedWithoutLoadOrWithoutDeadlines) {
  for (const double load : {0.05, 0.5}) {
    Scenario scenario = {.deadline = 1};
    Simulation simulation(scenario);
    scenario.requests_per_second = load * simulation.Peak();
    simulation.SetScenario(scenario);
    simulation.Run(60);
    const Counts counts = simulation.TakeCounts();
    EXPECT_EQ(counts.refused + counts.hopeless, 0) << load;
    EXPECT_GE(counts.answered, counts.asked - 50);
  }
  Scenario scenario;
  Simulation simulation(scenario);
  scenario.requests_per_second = 2 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(20);
  const Counts counts = simulation.TakeCounts();
  EXPECT_EQ(counts.refused + counts.hopeless + counts.late, 0);
  // No more run than reach 0.95 of what any number would, and the first answers take their time.
  EXPECT_GE(counts.answered, 0.9 * 20 * simulation.Peak());
}

// An estimate that is wrong by orders of magnitude keeps nobody out for long.
TEST(OverloadTest, AWrongEstimateIsCorrectedWithinSeconds) {
  Scenario scenario = {.deadline = 1};
  Simulation simulation(scenario);
  scenario.requests_per_second = 3 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(10);
  const auto poison = [&] {
    for (int i = 0; i < 50; ++i) simulation.rate().AddAnswer(1, 100, simulation.now());
    simulation.rate().AddStep({.seconds = 1000, .served = 1, .answers = 9, .left_waiting = true},
                              simulation.now());
  };
  poison();
  simulation.Run(10);
  simulation.TakeCounts();
  simulation.Run(10);
  EXPECT_GE(simulation.TakeCounts().answered, 0.9 * 10 * simulation.Peak());
  // With little load too, where there are few answers to learn from.
  scenario.requests_per_second = 0.2 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(5);
  poison();
  simulation.Run(10);
  simulation.TakeCounts();
  simulation.Run(30);
  const Counts counts = simulation.TakeCounts();
  EXPECT_EQ(counts.refused, 0);
  EXPECT_GE(counts.answered, 0.98 * counts.asked);
}

TEST(OverloadTest, AfterAStallItIsAsBefore) {
  Scenario scenario = {.deadline = 1};
  Simulation simulation(scenario);
  scenario.requests_per_second = 1.15 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(10);
  simulation.Stall(20);
  simulation.Run(25);
  simulation.TakeCounts();
  simulation.Run(10);
  EXPECT_GE(simulation.TakeCounts().answered, 0.8 * 10 * simulation.Peak());
}

TEST(OverloadTest, RandomSchedulesNeverRefuseTheFirst) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < (kSanitized ? 6 : 40); ++round) {
    const auto draw = [&](double least, double most) {
      return least * std::pow(most / least, std::generate_canonical<double, 53>(random));
    };
    Scenario scenario = {.deadline = draw(0.05, 20),
                         .num_clients = 1 + static_cast<int>(random() % 20),
                         .fixed = draw(1e-4, 1e-1),
                         .row = draw(1e-5, 1e-2),
                         .noise = draw(0.01, 1),
                         .max_width = 1 + static_cast<int32_t>(random() % 300),
                         .max_steps = 1 + static_cast<int64_t>(random() % 200)};
    Simulation simulation(scenario);
    for (int phase = 0; phase < 3; ++phase) {
      scenario.requests_per_second = draw(0.1, 5) * simulation.Peak();
      simulation.SetScenario(scenario);
      simulation.Run(std::min(20.0, 3000 / scenario.requests_per_second));
      const Counts counts = simulation.TakeCounts();
      EXPECT_EQ(counts.refused_first, 0);
    }
    // And however it went, a lone request is answered where its deadline allows it.
    scenario.deadline = 1000;
    scenario.requests_per_second = 0.01 * simulation.Peak();
    simulation.SetScenario(scenario);
    simulation.Run(20 / scenario.requests_per_second);
    simulation.TakeCounts();
    simulation.Run(20 / scenario.requests_per_second);
    const Counts counts = simulation.TakeCounts();
    EXPECT_EQ(counts.refused + counts.hopeless, 0);
    EXPECT_GT(counts.answered, 0);
  }
}

// Short requests find room in a queue that leaves none for long ones.
TEST(OverloadTest, LongRequestsAreTakenAsShortOnes) {
  // The longest take less than half of it.
  Scenario scenario = {.deadline = 4, .row = 0.3e-3, .honest = true};
  Simulation simulation(scenario);
  scenario.requests_per_second = 10 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(10);
  simulation.TakeCounts();
  simulation.Run(kSanitized ? 15 : 30);
  const Counts counts = simulation.TakeCounts();
  const double asked = counts.asked_steps / counts.asked;
  EXPECT_GE(counts.answered_steps / counts.answered, 0.9 * asked);
  EXPECT_LE(counts.answered_steps / counts.answered, 1.1 * asked);
}

// The longest, too, whose room others would take first.
TEST(OverloadTest, TheLongestAreTakenAsOthers) {
  for (const double deadline : {1.0, 4.0}) {
    for (const int clients : {1, 100}) {
      Scenario scenario = {.deadline = deadline,
                           .num_clients = clients,
                           .fixed = 0.5e-3,
                           .row = 0.2e-3,
                           .max_steps = 56,
                           .honest = true};
      Simulation simulation(scenario);
      scenario.requests_per_second = 10 * simulation.Peak();
      simulation.SetScenario(scenario);
      simulation.Run(10);
      simulation.TakeCounts();
      simulation.Run(kSanitized ? 10 : 30);
      const Counts counts = simulation.TakeCounts();
      const double of_all = static_cast<double>(counts.answered) / counts.asked;
      EXPECT_GE(static_cast<double>(counts.answered_long) / counts.asked_long, 0.7 * of_all)
          << deadline << ", " << clients << " clients";
    }
  }
}

// An overload that begins at once, at a server which has served all that came: what it can do is
// not known by what has waited, as nothing has.
TEST(OverloadTest, NobodyIsLateWhenItBegins) {
  for (const double deadline : {1.0, 4.0}) {
    int accepted = 0, late = 0;
    for (int round = 0; round < (kSanitized ? 5 : 20); ++round) {
      Scenario scenario = {.deadline = deadline, .row = 0.3e-3, .honest = true};
      Simulation simulation(scenario);
      scenario.requests_per_second = (0.5 + 0.02 * round) * simulation.Peak();
      simulation.SetScenario(scenario);
      simulation.Run(10);
      simulation.TakeCounts();
      scenario.requests_per_second = 10 * simulation.Peak();
      simulation.SetScenario(scenario);
      simulation.Run(2 * deadline);
      const Counts counts = simulation.TakeCounts();
      accepted += counts.answered + counts.late;
      late += counts.late;
    }
    EXPECT_LE(late, 0.005 * accepted) << deadline;
  }
}

TEST(RefusedLengthTest, IsTheLongestOfLate) {
  const Clock::time_point start = Clock::time_point(std::chrono::hours(1));
  RefusedLength refused;
  EXPECT_EQ(refused.steps(start), 0);
  refused.Add(40, start);
  EXPECT_EQ(refused.steps(start), 40);
  refused.Add(10, start);
  EXPECT_EQ(refused.steps(start), 40);
  EXPECT_EQ(refused.steps(start + RefusedLength::kHolds), 40);
  const Clock::time_point later = start + RefusedLength::kHolds + RefusedLength::kHalves;
  EXPECT_NEAR(refused.steps(later), 20, 1e-9);
  refused.Add(19, later);
  EXPECT_NEAR(refused.steps(later), 20, 1e-9);
  refused.Add(30, later);
  EXPECT_EQ(refused.steps(later), 30);
  // One as long holds it.
  refused.Add(30, later + RefusedLength::kHolds);
  EXPECT_EQ(refused.steps(later + 2 * RefusedLength::kHolds), 30);
  // A request that was looked at before the one that was refused last.
  EXPECT_EQ(refused.steps(start), 30);
}

// What waits leaves room for the longest that was refused, and no more than kReserved of the
// deadline.
TEST(OutlookTest, LeavesRoomForLongerOnes) {
  Outlook outlook = {.cost_ahead = 50, .cost_per_second = 100, .service_seconds = 0.1};
  EXPECT_TRUE(outlook.Meets(1));
  outlook.longer_seconds = 0.29;
  EXPECT_TRUE(outlook.Meets(1));
  outlook.longer_seconds = 0.31;
  EXPECT_FALSE(outlook.Meets(1));
  EXPECT_NEAR(outlook.RetryAfter(1), Outlook::kLeastRetry, 1e-9);
  EXPECT_NEAR(outlook.RetryAfter(0.5), 0.5 + 0.3 - 0.4, 1e-9);
  outlook.longer_seconds = 100;
  EXPECT_FALSE(outlook.Meets(1));
  outlook.cost_ahead = 19;
  EXPECT_TRUE(outlook.Meets(1));
  outlook.cost_ahead = 0;
  EXPECT_TRUE(outlook.Meets(1e-9));  // nobody is before it
  // Its own time, where that is longer.
  outlook.cost_ahead = 50;
  outlook.longer_seconds = 0.2;
  outlook.service_seconds = 0.31;
  EXPECT_FALSE(outlook.Meets(1));
}

// Before anything had to wait, who waits for the next step is let in whatever it takes.
TEST(OutlookTest, OfAnExpectedRateALittleIsNoQueue) {
  Outlook outlook = {
      .cost_ahead = 9, .cost_per_second = 100, .service_seconds = 2, .rate_is_expected = true};
  EXPECT_TRUE(outlook.Meets(1));
  outlook.rate_is_expected = false;
  EXPECT_FALSE(outlook.Meets(1));
  outlook.rate_is_expected = true;
  outlook.cost_ahead = 11;
  EXPECT_FALSE(outlook.Meets(1));
  outlook.service_seconds = 0.6;
  EXPECT_TRUE(outlook.Meets(1));
}

TEST(OutlookTest, SaysWhatItKnows) {
  Outlook outlook;
  EXPECT_EQ(*outlook.queue_seconds(), 0);
  EXPECT_TRUE(outlook.Meets(1e-9));
  outlook.service_seconds = 100;
  EXPECT_TRUE(outlook.Meets(1e-9));  // nobody is before it
  outlook.cost_ahead = 50;
  EXPECT_FALSE(outlook.queue_seconds().has_value());
  EXPECT_TRUE(outlook.Meets(1));  // how long those before it take is not known
  outlook.cost_per_second = 100;
  outlook.service_seconds = 0.3;
  EXPECT_NEAR(*outlook.queue_seconds(), 0.5, 1e-12);
  EXPECT_TRUE(outlook.Meets(1.01));
  EXPECT_FALSE(outlook.Meets(0.99));
  EXPECT_NEAR(outlook.RetryAfter(0.5), 0.4, 1e-9);
  EXPECT_EQ(outlook.RetryAfter(1), Outlook::kLeastRetry);
  outlook.cost_ahead = 1 << 30;
  EXPECT_EQ(outlook.RetryAfter(1), Outlook::kMostRetry);
  outlook.cost_ahead = 50;
  outlook.cost_to_come = 150;
  EXPECT_NEAR(*outlook.queue_seconds(), 2, 1e-12);
  outlook.cost_ahead = 0;
  EXPECT_EQ(*outlook.queue_seconds(), 0);
}

}  // namespace
}  // namespace beamline::overload_test
