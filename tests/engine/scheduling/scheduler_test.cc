#include "engine/scheduling/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/scheduling/fake_groups.h"
#include "tests/engine/scheduling/simulator.h"
#include "tests/sanitized.h"

namespace beamline::scheduler_test {
namespace {

// Of the schedules that are simulated, and of what they must have met.
constexpr int kShare = kSanitized ? 5 : 1;

// Replays one seed alone with BEAMLINE_SIMULATION_SEED=<seed>.
TEST(SchedulerTest, HoldsItsInvariantsUnderRandomSchedules) {
  constexpr uint64_t kNumSchedules = 10000 / kShare;
  uint64_t first = 0, last = kNumSchedules;
  if (const char* seed = std::getenv("BEAMLINE_SIMULATION_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    last = first + 1;
  }
  int64_t finished = 0, cancelled = 0, preemptions = 0, cached_tokens = 0, assumed_tokens = 0;
  int64_t reordered_searches = 0;
  int64_t expired_waiting = 0, expired_running = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const SimulationResult result = Simulate({.seed = seed});
    ASSERT_EQ(result.error, "");
    finished += result.finished;
    cancelled += result.cancelled;
    expired_waiting += result.expired_waiting;
    expired_running += result.expired_running;
    preemptions += result.preemptions;
    cached_tokens += result.cached_tokens;
    assumed_tokens += result.assumed_tokens;
    reordered_searches += result.reordered_searches;
  }
  if (last - first == kNumSchedules) {
    // The schedules must have been worth simulating.
    EXPECT_GT(finished, 90000 / kShare);
    EXPECT_GT(cancelled, 5000 / kShare);
    EXPECT_GT(expired_waiting, 1000 / kShare);
    EXPECT_GT(expired_running, 5000 / kShare);
    EXPECT_GT(preemptions, 5000 / kShare);
    EXPECT_GT(cached_tokens, 40000 / kShare);
    EXPECT_GT(assumed_tokens, 100000 / kShare);
    EXPECT_GT(reordered_searches, 10000 / kShare);
  }
}

TEST(SchedulerTest, LanesHoldTheInvariantsUnderRandomSchedules) {
  constexpr uint64_t kNumSchedules = 6000 / kShare;
  uint64_t first = 0, last = kNumSchedules;
  if (const char* seed = std::getenv("BEAMLINE_SIMULATION_SEED")) {
    first = std::strtoull(seed, nullptr, 10);
    last = first + 1;
  }
  int64_t finished = 0, preemptions = 0, cached_tokens = 0, overlapped = 0, awaiting = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const auto num_lanes = static_cast<int32_t>(2 + seed % 4);
    const SimulationResult result = Simulate({.seed = seed, .num_lanes = num_lanes});
    ASSERT_EQ(result.error, "") << num_lanes << " lanes";
    EXPECT_EQ(result.assumed_tokens, 0);
    finished += result.finished;
    preemptions += result.preemptions;
    cached_tokens += result.cached_tokens;
    overlapped += result.overlapped_steps;
    awaiting += result.preempted_awaiting;
  }
  if (last - first == kNumSchedules) {
    EXPECT_GT(finished, 30000 / kShare);
    EXPECT_GT(preemptions, 3000 / kShare);
    EXPECT_GT(cached_tokens, 10000 / kShare);
    EXPECT_GT(overlapped, 100000 / kShare);
    EXPECT_GT(awaiting, 500 / kShare);
  }
}

TEST(SchedulerTest, AWidthThatGoesUpAndDownHoldsTheInvariants) {
  int64_t finished = 0;
  for (uint64_t seed = 0; seed < 2000 / kShare; ++seed) {
    const SimulationResult result = Simulate({.seed = seed, .vary_width = true});
    ASSERT_EQ(result.error, "") << "seed " << seed;
    finished += result.finished;
  }
  EXPECT_GT(finished, 15000 / kShare);
}

TEST(SchedulerTest, PiecesOfAnySizeHoldTheInvariants) {
  int64_t finished = 0;
  for (uint64_t seed = 0; seed < 6000 / kShare; ++seed) {
    const auto num_lanes = static_cast<int32_t>(1 + seed % 3);
    const SimulationResult result =
        Simulate({.seed = seed, .num_lanes = num_lanes, .vary_pieces = true});
    ASSERT_EQ(result.error, "") << "seed " << seed << ", " << num_lanes << " lanes";
    finished += result.finished;
  }
  EXPECT_GT(finished, 30000 / kShare);
}

TEST(SchedulerTest, TheWidthIsWhatRunsBeforeAnotherIsAdmitted) {
  StepLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_sequences = 16;
  limits.num_blocks = 256;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  const Clock::time_point now;
  for (int i = 0; i < 20; ++i) scheduler.Add(MakeGroup(4, 1000, 0, now));
  scheduler.SetWidth(3);
  RunStep(scheduler, now);
  EXPECT_EQ(scheduler.num_running_rows(), 3);
  EXPECT_EQ(scheduler.num_waiting(), 17);
  scheduler.SetWidth(1);  // who runs goes on
  RunStep(scheduler, now);
  EXPECT_EQ(scheduler.num_running_rows(), 3);
  scheduler.SetWidth(100);
  RunStep(scheduler, now);
  EXPECT_EQ(scheduler.num_running_rows(), limits.max_sequences);
  EXPECT_EQ(scheduler.num_waiting(), 4);
  // A group of many rows begins below the width, whatever its own.
  Scheduler wide(limits, /*share_prefixes=*/true);
  wide.SetWidth(2);
  auto group = MakeGroup(4, 1000, 0, now);
  group->decoder = std::make_unique<FakeDecoder>(8, 1000, FakeKind::kIndependent, 1);
  wide.Add(std::move(group));
  wide.Add(MakeGroup(4, 1000, 0, now));
  RunStep(wide, now);
  EXPECT_EQ(wide.num_reserved_rows(), 8);
  EXPECT_EQ(wide.num_waiting(), 1);
}

// Whatever runs, and however many of its client's wait.
TEST(SchedulerTest, AnotherClientsFirstRequestStartsAboveTheWidth) {
  StepLimits limits;
  limits.max_batch_tokens = 256;
  limits.max_sequences = 64;
  limits.num_blocks = 1024;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  for (int i = 0; i < 40; ++i) scheduler.Add(MakeGroup(4, 1000, 0, now));
  RunStep(scheduler, now);
  EXPECT_EQ(scheduler.num_running_rows(), 40);
  scheduler.SetWidth(16);
  for (int i = 0; i < 40; ++i) scheduler.Add(MakeGroup(4, 1000, 0, now));
  for (int i = 0; i < 3; ++i) {
    auto group = MakeGroup(5, 1000, 0, now - std::chrono::nanoseconds(1));  // first in turn
    group->client = "other";
    scheduler.Add(std::move(group));
  }
  for (int step = 0; step < 5; ++step) RunStep(scheduler, now);
  EXPECT_EQ(scheduler.num_running_rows(), 41);
  EXPECT_GE(Computed(scheduler, "other"), 5);
}

TEST(SchedulerTest, LowestPriorityIsServedUnderEndlessHigherOnes) {
  StepLimits limits;
  limits.max_batch_tokens = 64;
  limits.max_sequences = 4;
  limits.num_blocks = 64;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  scheduler.Add(MakeGroup(8, 4, /*priority=*/-100, now));
  const Group* lowest = scheduler.groups()[0].get();
  for (int i = 0; i < 8; ++i) scheduler.Add(MakeGroup(8, 4, 100, now));
  // 200 levels of priority age away in 200 * ageing = 20 s of 1 ms steps.
  for (int step = 0; step < 21000; ++step) {
    now += std::chrono::milliseconds(1);
    RunStep(scheduler, now);
    const auto is_lowest = [lowest](const auto& group) { return group.get() == lowest; };
    if (std::ranges::none_of(scheduler.groups(), is_lowest)) return;
    while (scheduler.groups().size() < 9) scheduler.Add(MakeGroup(8, 4, 100, now));
  }
  FAIL() << "starved";
}

TEST(SchedulerTest, DecodesBesideALongPrefillInChunks) {
  StepLimits limits;
  limits.max_batch_tokens = 32;
  limits.num_blocks = 256;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  scheduler.Add(MakeGroup(4, 100, 0, now));
  RunStep(scheduler, now);
  scheduler.Add(MakeGroup(1000, 2, 0, now));
  // 31 prompt tokens a step beside the decoding row, which gets its token in every one of them.
  for (int step = 0; step < 32; ++step) {
    const size_t before = scheduler.groups()[0]->rows[0].tokens.size();
    RunStep(scheduler, now);
    EXPECT_EQ(scheduler.groups()[0]->rows[0].tokens.size(), before + 1);
  }
  EXPECT_EQ(scheduler.groups()[1]->rows[0].num_computed, 32 * 31);
}

TEST(SchedulerTest, AShortPromptPassesALongOneOfAnotherClient) {
  StepLimits limits;
  limits.max_batch_tokens = 64;
  limits.num_blocks = 4096;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  const Clock::time_point now;
  const auto add = [&](int32_t prompt, const std::string& client) {
    auto group = MakeGroup(prompt, 2, 0, now);
    group->client = client;
    scheduler.Add(std::move(group));
  };
  for (int i = 0; i < 3; ++i) add(10000 + i, "long");
  RunStep(scheduler, now);
  EXPECT_EQ(Computed(scheduler, "long"), 64);
  add(20, "short");
  RunStep(scheduler, now);
  EXPECT_EQ(Computed(scheduler, "short"), 20);
  EXPECT_EQ(Computed(scheduler, "long"), 64 + 44);
  // Two long ones share; the first client's second prompt waits for its first.
  add(5000, "other");
  const int32_t before = Computed(scheduler, "long");
  for (int step = 0; step < 10; ++step) RunStep(scheduler, now);
  EXPECT_NEAR(Computed(scheduler, "other"), 320, 10);
  EXPECT_NEAR(Computed(scheduler, "long") - before, 320, 10);
  EXPECT_EQ(scheduler.num_running_rows(), 2);
}

TEST(SchedulerTest, PromptsLeaveTimeToThoseThatDecode) {
  StepLimits limits;
  limits.max_batch_tokens = 1024;
  limits.num_blocks = 4096;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  const Clock::time_point now;
  scheduler.SetPromptTokens({.beside_decoding = 50, .alone = 300});
  scheduler.Add(MakeGroup(1000, 100, 0, now));
  RunStep(scheduler, now);
  EXPECT_EQ(scheduler.num_step_tokens(), 300);
  for (int step = 0; step < 3; ++step) RunStep(scheduler, now);
  scheduler.Add(MakeGroup(2000, 100, 0, now));
  RunStep(scheduler, now);
  EXPECT_EQ(scheduler.num_step_tokens(), 51);
}

// Blocks that a prompt under way will need are not given to another.
TEST(SchedulerTest, APromptUnderWayKeepsItsBlocks) {
  StepLimits limits;
  limits.max_batch_tokens = 32;
  limits.num_blocks = 64;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  const Clock::time_point now;
  for (const int32_t prompt : {800, 400}) {
    auto group = MakeGroup(prompt, 2, 0, now);
    group->client = std::to_string(prompt);
    scheduler.Add(std::move(group));
  }
  for (int step = 0; step < 25; ++step) {
    RunStep(scheduler, now);
    EXPECT_EQ(scheduler.num_preempted(), 0);
    EXPECT_EQ(scheduler.num_waiting(), 1);
  }
}

TEST(SchedulerTest, BeamSharesItsPromptAndCopiesAtMostOneBlockARow) {
  StepLimits limits;
  limits.block_size = 16;
  limits.num_blocks = 1024;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  Clock::time_point now;
  auto group = MakeGroup(1, 64, 0, now);
  group->rows[0].tokens.assign(1000, 1);
  group->decoder = std::make_unique<FakeDecoder>(8, 64, FakeKind::kBeams, 3);
  scheduler.Add(std::move(group));
  size_t most_copies = 0;
  int32_t most_blocks = 0;
  while (!scheduler.empty()) {
    ASSERT_TRUE(scheduler.PrepareStep(now));
    most_copies = std::max(most_copies, scheduler.step().copies().size());
    most_blocks = std::max(most_blocks, scheduler.pool().num_used());
    for (const LogitsRange& range : scheduler.step().logits_ranges()) {
      const std::vector<RowResult> results(range.count);
      const auto next = range.group->decoder->Advance(results);
      range.group->done = range.group->decoder->finished();
      GroupCache::Workspace workspace;
      if (!range.group->done) scheduler.Fork(*range.group, next, workspace);
      scheduler.Free(workspace);
    }
    scheduler.RemoveDone();
  }
  EXPECT_LE(most_copies, 7u);  // eight rows share a partial block: the last one keeps it
  // ceil(1000 / 16) = 63 blocks of the prompt, and of each row's 63 generated tokens at most 5
  // more.
  EXPECT_LE(most_blocks, 63 + 8 * 5);
}

// The lanes of the running groups, in the order of their arrival; -1: it waits.
std::vector<int32_t> Lanes(const Scheduler& scheduler) {
  std::vector<int32_t> lanes;
  std::vector<const Group*> groups;
  for (const auto& group : scheduler.groups()) groups.push_back(group.get());
  // Each arrives with a longer prompt.
  std::ranges::sort(groups, {}, [](const Group* group) { return group->rows[0].tokens.size(); });
  for (const Group* group : groups) lanes.push_back(group->running ? group->lane : -1);
  return lanes;
}

TEST(SchedulerTest, AStepLeavesTheOtherLanesTheirShareOfThoseThatWait) {
  StepLimits limits;
  limits.num_blocks = 256;
  limits.num_lanes = 3;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  const Clock::time_point now;
  for (int i = 0; i < 7; ++i) {
    scheduler.Add(MakeGroup(4 + i, 9, 0, now + std::chrono::nanoseconds(i)));
  }
  ASSERT_TRUE(scheduler.PrepareStep(now, 1));
  EXPECT_EQ(Lanes(scheduler), (std::vector<int32_t>{1, -1, -1, 1, -1, -1, 1}));
  ASSERT_TRUE(scheduler.PrepareStep(now, 2));
  EXPECT_EQ(Lanes(scheduler), (std::vector<int32_t>{1, 2, -1, 1, 2, -1, 1}));
  ASSERT_TRUE(scheduler.PrepareStep(now, 0));
  EXPECT_EQ(Lanes(scheduler), (std::vector<int32_t>{1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(scheduler.step().step_batch().num_sequences(), 2);
}

// Rows count, not groups: a wide search is as much as many single rows.
TEST(SchedulerTest, LanesAreBalancedByRows) {
  StepLimits limits;
  limits.num_blocks = 256;
  limits.num_lanes = 2;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  const Clock::time_point now;
  scheduler.Add(MakeGroup(4, 9, 0, now));
  scheduler.groups()[0]->decoder = std::make_unique<FakeDecoder>(5, 9, FakeKind::kSearch, 3);
  for (int i = 0; i < 6; ++i) scheduler.Add(MakeGroup(5 + i, 9, 0, now));
  ASSERT_TRUE(scheduler.PrepareStep(now, 0));
  EXPECT_EQ(Lanes(scheduler), (std::vector<int32_t>{0, -1, -1, -1, -1, -1, 0}));
  ASSERT_TRUE(scheduler.PrepareStep(now, 1));
  EXPECT_EQ(Lanes(scheduler), (std::vector<int32_t>{0, 1, 1, 1, 1, 1, 0}));
}

// What the cache has room for is divided, too: no lane takes all of it.
TEST(SchedulerTest, AFullCacheIsSharedByTheLanes) {
  StepLimits limits;
  limits.block_size = 4;
  limits.num_blocks = 8;
  limits.num_lanes = 2;
  Scheduler scheduler(limits, /*share_prefixes=*/true);
  const Clock::time_point now;
  for (int i = 0; i < 12; ++i) scheduler.Add(MakeGroup(4, 4, 0, now));
  int number = 0;
  for (const auto& group : scheduler.groups()) group->cache_salt = std::to_string(number++);
  ASSERT_TRUE(scheduler.PrepareStep(now, 0));
  ASSERT_TRUE(scheduler.PrepareStep(now, 1));
  const std::vector<int32_t> lanes = Lanes(scheduler);
  EXPECT_EQ(std::count(lanes.begin(), lanes.end(), 0), 4);
  EXPECT_EQ(std::count(lanes.begin(), lanes.end(), 1), 4);
}

}  // namespace
}  // namespace beamline::scheduler_test
