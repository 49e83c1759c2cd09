// Another client's first request starts within a few steps, whatever runs.
#include "engine/scheduling/put_back.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "engine/scheduling/scheduler.h"
#include "engine/scheduling/waiting_count.h"
#include "tests/engine/scheduling/fake_groups.h"

namespace beamline::put_back_test {
namespace {

constexpr std::chrono::milliseconds kStep{1};

// A group that takes its turn among those of `waiting`.
std::unique_ptr<Group> GroupOf(WaitingCounter& waiting, const std::string& client, int32_t prompt,
                               int32_t steps, Clock::time_point arrival, int32_t rows = 1,
                               int32_t priority = 0, int64_t cost = 0) {
  auto group = MakeGroup(prompt, steps, priority, arrival);
  group->client = client;
  group->cost = cost > 0 ? cost : prompt + int64_t{rows} * steps;
  group->waiting = *WaitingCount::Enter(waiting, 1 << 20);
  group->waiting.Describe({priority, client, group->cost, prompt, arrival}, 1 << 30);
  if (rows > 1) {
    group->decoder = std::make_unique<FakeDecoder>(rows, steps, FakeKind::kBeams, 1);
  }
  return group;
}

int32_t NumRunning(const Scheduler& scheduler, const std::string& client) {
  return static_cast<int32_t>(std::ranges::count_if(scheduler.groups(), [&](const auto& group) {
    return group->running && group->client == client;
  }));
}

int32_t NumOf(const Scheduler& scheduler, const std::string& client) {
  return static_cast<int32_t>(std::ranges::count_if(
      scheduler.groups(), [&](const auto& group) { return group->client == client; }));
}

// Steps until none of the client's groups is left.
int StepsToEnd(Scheduler& scheduler, const std::string& client, Clock::time_point& now) {
  int steps = 0;
  while (NumOf(scheduler, client) > 0 && steps < 100000) {
    RunStep(scheduler, now += kStep);
    EXPECT_TRUE(scheduler.Verify().ok());
    ++steps;
  }
  return steps;
}

TEST(PutBackTest, WhereAllRowsAreTakenOneOfTheGreedyClientsGroupsMakesRoom) {
  StepLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_sequences = 64;
  limits.num_blocks = 4096;
  WaitingCounter waiting;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  for (int i = 0; i < 300; ++i) scheduler.Add(GroupOf(waiting, "greedy", 4, 490, now));
  for (int i = 0; i < 100; ++i) RunStep(scheduler, now += kStep);
  ASSERT_EQ(NumRunning(scheduler, "greedy"), 64);
  for (int i = 0; i < 20; ++i) {
    scheduler.Add(GroupOf(waiting, "other", 5, 4, now));
    EXPECT_LE(StepsToEnd(scheduler, "other", now), 6) << i;
    RunStep(scheduler, now += kStep);
    EXPECT_EQ(scheduler.num_running_rows(), 64) << i;  // who made room runs again
  }
  // Of one client's no more than one starts so.
  for (int i = 0; i < 20; ++i) scheduler.Add(GroupOf(waiting, "other", 5, 100, now));
  for (int i = 0; i < 10; ++i) RunStep(scheduler, now += kStep);
  EXPECT_EQ(NumRunning(scheduler, "other"), 1);
  EXPECT_EQ(NumRunning(scheduler, "greedy"), 63);
  StepsToEnd(scheduler, "greedy", now);
  EXPECT_EQ(NumOf(scheduler, "greedy"), 0);
}

// Also when virtual time has passed all turns of the greedy client's.
TEST(PutBackTest, ACostlyClientStartsAgainAndAgain) {
  StepLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_sequences = 64;
  limits.num_blocks = 4096;
  WaitingCounter waiting;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  for (int i = 0; i < 300; ++i) scheduler.Add(GroupOf(waiting, "greedy", 4, 490, now));
  RunStep(scheduler, now += kStep);
  for (int i = 0; i < 60; ++i) {
    scheduler.Add(GroupOf(waiting, "other", 5, 4, now, 1, 0, /*cost=*/8192));
    EXPECT_LE(StepsToEnd(scheduler, "other", now), 6) << i;
  }
  scheduler.Add(GroupOf(waiting, "new", 5, 4, now));
  EXPECT_LE(StepsToEnd(scheduler, "new", now), 6);
}

// Also where a row is free in every step, whose turn is the greedy client's.
TEST(PutBackTest, FreeRowsAreLeftToNewcomers) {
  StepLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_sequences = 16;
  limits.num_blocks = 4096;
  WaitingCounter waiting;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  for (int i = 0; i < 2000; ++i) {
    scheduler.Add(GroupOf(waiting, "greedy", 4, i % 16 + 1, now));
  }
  for (int i = 0; i < 50; ++i) {
    RunStep(scheduler, now += kStep);
    scheduler.Add(GroupOf(waiting, "other", 5, 4, now, 1, 0, /*cost=*/8192));
    EXPECT_LE(StepsToEnd(scheduler, "other", now), 6) << i;
  }
}

// Each lane admits what is meant for it.
TEST(PutBackTest, LanesToo) {
  StepLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_sequences = 16;
  limits.num_blocks = 4096;
  limits.num_lanes = 2;
  WaitingCounter waiting;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  for (int i = 0; i < 100; ++i) scheduler.Add(GroupOf(waiting, "greedy", 4, 490, now));
  for (int i = 0; i < 4; ++i) RunStep(scheduler, now += kStep, i % 2);
  ASSERT_EQ(NumRunning(scheduler, "greedy"), 16);
  int preempted = 0;
  for (int i = 0; i < 10; ++i) {
    scheduler.Add(GroupOf(waiting, "other", 5, 4, now, 1, 0, /*cost=*/8192));
    int steps = 0;
    for (; NumOf(scheduler, "other") > 0 && steps < 100; ++steps) {
      RunStep(scheduler, now += kStep, steps % 2);
      preempted += scheduler.num_preempted();
    }
    EXPECT_LE(steps, 12) << i;
  }
  EXPECT_LE(preempted, 10);
}

TEST(PutBackTest, ManyClientsStartBesideAGreedyOne) {
  StepLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_sequences = 64;
  limits.num_blocks = 4096;
  WaitingCounter waiting;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  for (int i = 0; i < 300; ++i) scheduler.Add(GroupOf(waiting, "greedy", 4, 2000, now));
  RunStep(scheduler, now += kStep);
  for (int i = 0; i < 100; ++i)
    scheduler.Add(GroupOf(waiting, "client " + std::to_string(i), 5, 500, now));
  for (int i = 0; i < 70; ++i) RunStep(scheduler, now += kStep);
  // One of the greedy client's goes on, and of the others as many as there is room for.
  EXPECT_EQ(NumRunning(scheduler, "greedy"), 1);
  EXPECT_EQ(scheduler.num_running_rows(), 64);
  for (int i = 0; i < 100; ++i) {
    StepsToEnd(scheduler, "client " + std::to_string(i), now);
  }
  RunStep(scheduler, now += kStep);
  EXPECT_EQ(NumRunning(scheduler, "greedy"), 64);
}

TEST(PutBackTest, WhereAllBlocksAreTakenTheyComeFromWhoHoldsTheMost) {
  StepLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_sequences = 64;
  limits.num_blocks = 400;
  WaitingCounter waiting;
  Scheduler scheduler(limits, /*share_prefixes=*/false);
  Clock::time_point now;
  for (int i = 0; i < 8; ++i)
    scheduler.Add(GroupOf(waiting, "greedy", 40 * limits.block_size, 400, now));
  scheduler.Add(GroupOf(waiting, "modest", 20 * limits.block_size, 400, now));
  scheduler.Add(GroupOf(waiting, "modest", 20 * limits.block_size, 400, now));
  for (int i = 0; i < 100; ++i) RunStep(scheduler, now += kStep);
  const int32_t greedy = NumRunning(scheduler, "greedy"), modest = NumRunning(scheduler, "modest");
  ASSERT_GT(scheduler.num_waiting(), 0);
  ASSERT_GT(greedy, 2);
  scheduler.Add(GroupOf(waiting, "other", 60 * limits.block_size, 4, now));
  // Its prompt takes four steps.
  EXPECT_LE(StepsToEnd(scheduler, "other", now), 12);
  EXPECT_EQ(NumRunning(scheduler, "modest"), modest);
  StepsToEnd(scheduler, "greedy", now);
  StepsToEnd(scheduler, "modest", now);
  EXPECT_TRUE(scheduler.empty());
}

// A search of 8 rows beside searches of 8 rows.
TEST(PutBackTest, GroupsOfManyRowsMakeRoom) {
  StepLimits limits;
  limits.max_batch_tokens = 64;
  limits.max_sequences = 60;
  limits.num_blocks = 4096;
  WaitingCounter waiting;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  for (int i = 0; i < 20; ++i) scheduler.Add(GroupOf(waiting, "greedy", 4, 300, now, 8));
  for (int i = 0; i < 10; ++i) RunStep(scheduler, now += kStep);
  ASSERT_EQ(NumRunning(scheduler, "greedy"), 7);
  scheduler.Add(GroupOf(waiting, "other", 5, 4, now, 6));
  EXPECT_LE(StepsToEnd(scheduler, "other", now), 8);
  // What no client would have left of after it waits.
  scheduler.Add(GroupOf(waiting, "large", 5, 4, now, 50));
  for (int i = 0; i < 10; ++i) RunStep(scheduler, now += kStep);
  EXPECT_EQ(NumRunning(scheduler, "large"), 0);
  EXPECT_GE(NumRunning(scheduler, "greedy"), 6);
  StepsToEnd(scheduler, "large", now);
  EXPECT_EQ(NumOf(scheduler, "large"), 0);
}

// A higher priority makes room only when the other has waited for it.
TEST(PutBackTest, HigherPrioritiesStay) {
  StepLimits limits;
  limits.max_batch_tokens = 64;
  limits.max_sequences = 8;
  limits.num_blocks = 4096;
  WaitingCounter waiting;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  for (int i = 0; i < 20; ++i) {
    scheduler.Add(GroupOf(waiting, "greedy", 4, 5000, now, 1, /*priority=*/5));
  }
  RunStep(scheduler, now += kStep);
  scheduler.Add(GroupOf(waiting, "other", 5, 4, now));
  const int steps = StepsToEnd(scheduler, "other", now);
  EXPECT_GT(steps, 490);  // a priority is 100 ms of waiting
  EXPECT_LT(steps, 520);
}

// Clients that run one group each take nothing from each other.
TEST(PutBackTest, EqualClientsWaitForTheirTurn) {
  StepLimits limits;
  limits.max_batch_tokens = 64;
  limits.max_sequences = 8;
  limits.num_blocks = 4096;
  WaitingCounter waiting;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  for (int i = 0; i < 40; ++i) {
    scheduler.Add(GroupOf(waiting, "client " + std::to_string(i), 4, 50, now));
  }
  int preempted = 0;
  for (int i = 0; i < 400 && !scheduler.empty(); ++i) {
    RunStep(scheduler, now += kStep);
    preempted += scheduler.num_preempted();
  }
  EXPECT_EQ(preempted, 0);
  EXPECT_TRUE(scheduler.empty());
}

TEST(PutBackTest, BlocksThatAreMissingComeFromClientsThatRunMore) {
  const auto state = [](std::string_view client, uint64_t admission, int32_t priority) {
    GroupState group;
    group.running = true;
    group.client = client;
    group.admission = admission;
    group.priority = priority;
    return group;
  };
  std::vector<GroupState> groups = {state("a", 0, 0), state("a", 1, 0), state("b", 2, 0)};
  EXPECT_EQ(PutBackForBlocks(groups), 1);  // not the last admitted, all that b has
  groups[2].priority = -1;
  EXPECT_EQ(PutBackForBlocks(groups), 2);
  groups = {state("a", 0, 0), state("b", 1, 0)};
  EXPECT_EQ(PutBackForBlocks(groups), 1);
}

}  // namespace
}  // namespace beamline::put_back_test
