// Thousands of schedules of arrivals, faults, drains and restarts: no request is lost, none is
// answered twice, and who can answer does.
#include "tests/engine/serving/pool_simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "tests/sanitized.h"

namespace beamline::pool_simulator_test {
namespace {

constexpr int kSchedules = kSanitized ? 400 : 4000;

// What holds whatever happens. Returns how many were answered OK.
int64_t ExpectWhole(const PoolSimulator& simulator) {
  EXPECT_EQ(simulator.broken(), "");
  int64_t num_ok = 0;
  for (const auto& request : simulator.requests()) {
    EXPECT_EQ(request->answers, 1);
    EXPECT_LE(request->runs, 2);
    if (request->answer.ok()) {
      ++num_ok;
      EXPECT_GE(request->runs, 1);
      continue;
    }
    EXPECT_TRUE(request->answer.code() == absl::StatusCode::kUnavailable ||
                (request->cancelled && absl::IsCancelled(request->answer)) ||
                absl::IsDeadlineExceeded(request->answer))
        << request->answer;
  }
  return num_ok;
}

TEST(PoolSimulatorTest, FaultsLoseNobody) {
  int64_t faults = 0, restarts = 0, requests = 0, num_ok = 0;
  for (int seed = 0; seed < kSchedules; ++seed) {
    SCOPED_TRACE(seed);
    PoolSimulator simulator({.num_replicas = 1 + seed % 8,
                             .mean_gap_ms = 0.5 + seed % 7,
                             .mean_fault_ms = 20.0 + seed % 50 * 10,
                             .failing_loads = seed % 3 * 0.3,
                             .devices_stay_whole = seed % 5 != 0,
                             .cancelled = 0.1,
                             .deadlines = 0.1},
                            static_cast<uint64_t>(seed));
    simulator.Run();
    num_ok += ExpectWhole(simulator);
    faults += simulator.num_faults();
    restarts += simulator.num_restarts();
    requests += static_cast<int64_t>(simulator.requests().size());
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(faults, kSchedules);  // it was tested what is said above
  EXPECT_GT(restarts, kSchedules);
  EXPECT_GT(num_ok, requests / 4);
}

TEST(PoolSimulatorTest, DrainsAmongFaultsLoseNobody) {
  for (int seed = 0; seed < kSchedules; ++seed) {
    SCOPED_TRACE(seed);
    PoolSimulator simulator({.num_replicas = 2 + seed % 5,
                             .mean_gap_ms = 1.0 + seed % 5,
                             .mean_fault_ms = seed % 2 * 100.0,
                             .mean_drain_ms = 15.0,
                             .failing_loads = seed % 4 * 0.1,
                             .cancelled = 0.05},
                            1000000 + static_cast<uint64_t>(seed));
    simulator.Run();
    ExpectWhole(simulator);
    if (testing::Test::HasFailure()) return;
  }
}

// Where one replica at a time goes and others stay, only those that had seen some of their answer
// are told to come again.
TEST(PoolSimulatorTest, ARestartCostsNoRequestThatHasSeenNothing) {
  for (int seed = 0; seed < kSchedules; ++seed) {
    SCOPED_TRACE(seed);
    PoolSimulator simulator({.num_replicas = 3, .mean_gap_ms = 3, .mean_drain_ms = 120},
                            2000000 + static_cast<uint64_t>(seed));
    simulator.Run();
    ExpectWhole(simulator);
    for (const auto& request : simulator.requests()) {
      if (request->runs < 2) {
        EXPECT_TRUE(request->answer.ok() || request->handed_out);
      }
    }
    if (testing::Test::HasFailure()) return;
  }
}

// The last one to finish is at most a tenth later than it would be if all had done the same.
TEST(PoolSimulatorTest, WorkIsBalanced) {
  for (int seed = 0; seed < kSchedules / 40; ++seed) {
    SCOPED_TRACE(seed);
    const int replicas = 2 + seed % 7;
    PoolSimulator simulator(
        {.num_replicas = replicas, .num_requests = 150 * replicas, .mean_gap_ms = 0},
        3000000 + static_cast<uint64_t>(seed));
    simulator.Run();
    ExpectWhole(simulator);
    int64_t total = 0, most = 0;
    for (int i = 0; i < replicas; ++i) {
      total += simulator.computed(i);
      most = std::max(most, simulator.computed(i));
    }
    EXPECT_LE(static_cast<double>(most), 1.1 * static_cast<double>(total) / replicas);
  }
}

// A device that fails whatever is done is left alone after a while, and the end says so.
TEST(PoolSimulatorTest, ALoadThatAlwaysFailsIsGivenUp) {
  PoolSimulator simulator({.num_replicas = 2, .mean_fault_ms = 10, .failing_loads = 1}, 7);
  simulator.Run();
  ExpectWhole(simulator);
  EXPECT_FALSE(simulator.state().has_future());
  EXPECT_EQ(simulator.num_restarts(), 2 * (RestartPolicy{}.most_failures - 1));
}

}  // namespace
}  // namespace beamline::pool_simulator_test
