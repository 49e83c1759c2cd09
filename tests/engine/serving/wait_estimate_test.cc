// The wait that a request is told when it comes, and the one that comes, on a simulated clock.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/engine/serving/overload_simulation.h"

namespace beamline::wait_estimate_test {
namespace {

using overload_simulation::Counts;
using overload_simulation::Scenario;
using overload_simulation::Simulation;

// Shorter waits are told well enough: some steps, of up to 20 ms each.
constexpr double kShort = 0.05;

struct Tally {
  int64_t within = 0, all = 0;
  double share() const { return static_cast<double>(within) / static_cast<double>(all); }
};

Tally WithinTwice(const Counts& counts) {
  Tally tally;
  for (const Counts::Wait& wait : counts.waits) {
    const double told = std::max(wait.told, kShort), real = std::max(wait.real, kShort);
    tally.within += told <= 2 * real && real <= 2 * told ? 1 : 0;
    ++tally.all;
  }
  return tally;
}

// 160 answers a second at the most.
Counts Simulate(Scenario scenario, double load) {
  scenario.row = 0.3e-3;
  scenario.max_waiting = 4096;
  Simulation simulation(scenario);
  scenario.requests_per_second = load * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(6);
  simulation.TakeCounts();
  simulation.Run(12);
  return simulation.TakeCounts();
}

// 1 to 200 clients, one of them greedy or none, with deadlines, without and both, with one priority
// and with six.
TEST(WaitEstimateTest, ThatComesIsWithinTwiceWhatWasTold) {
  Tally all;
  for (const double load : {0.5, 0.9, 1.15, 3.0}) {
    for (const int clients : {1, 30, 200}) {
      for (const double deadlines : {0.0, 0.5, 1.0}) {
        for (const int32_t priority : {0, 5}) {
          for (const double greed : {0.0, 0.5}) {
            if (clients == 1 && greed > 0) continue;
            Scenario scenario = {.num_clients = clients,
                                 .greed = greed,
                                 .max_priority = priority,
                                 .deadline_share = deadlines};
            if (deadlines > 0) scenario.deadline = 2;
            const Tally one = WithinTwice(Simulate(scenario, load));
            all.within += one.within;
            all.all += one.all;
            EXPECT_GE(one.share(), priority == 0 ? 0.85 : 0.65)
                << "load " << load << ", clients " << clients << ", deadlines " << deadlines
                << ", priorities to " << priority << ", greed " << greed;
          }
        }
      }
    }
  }
  EXPECT_GE(all.share(), 0.95);
}

// Beside one that asks for three times the peak with the highest priority, which lasts for half a
// second: no request with a deadline of some seconds is refused for it.
TEST(WaitEstimateTest, BesideHighPrioritiesDeadlinesOfSecondsAreMet) {
  Simulation simulation({.deadline = 4, .num_clients = 10, .row = 0.3e-3});
  Scenario scenario = {.deadline = 4, .num_clients = 10, .row = 0.3e-3};
  scenario.greed = 0.9;
  scenario.max_waiting = 4096;
  scenario.greedy_priority = 5;
  scenario.requests_per_second = 3 * simulation.Peak();
  simulation.SetScenario(scenario);
  simulation.Run(10);
  simulation.TakeCounts();
  simulation.Run(20);
  const Counts counts = simulation.TakeCounts();
  EXPECT_GT(counts.refused, 1000);
  // The others ask for 0.27 of the peak.
  EXPECT_GT(counts.asked_of_others, 500);
  EXPECT_LE(counts.refused_of_others, counts.asked_of_others / 50);
}

}  // namespace
}  // namespace beamline::wait_estimate_test
