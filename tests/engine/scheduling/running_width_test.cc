// The width that steps of known durations show.
#include "engine/scheduling/running_width.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/test_seed.h"

namespace beamline::running_width_test {
namespace {

struct Device {
  double fixed, row, token;  // seconds
  double noise = 0;          // relative, of a step

  double Step(int32_t rows, int32_t tokens, std::mt19937_64& random) const {
    const double time = fixed + row * rows + token * (tokens - rows);
    return time * std::exp(noise * std::normal_distribution<double>()(random));
  }
};

// Steps of 1 to `most` rows, some of them with prompts.
RunningWidth Watch(const Device& device, int most, int steps, std::mt19937_64& random) {
  RunningWidth width;
  for (int i = 0; i < steps; ++i) {
    const auto rows = 1 + static_cast<int32_t>(random() % static_cast<uint64_t>(most));
    const int32_t tokens = rows + (random() % 3 == 0 ? static_cast<int32_t>(random() % 40) : 0);
    width.AddStep(rows, tokens, device.Step(rows, tokens, random));
  }
  return width;
}

TEST(RunningWidthTest, NothingIsHeldBackBeforeItIsMeasured) {
  std::mt19937_64 random(TestSeed());
  EXPECT_EQ(RunningWidth().Enough(256), 256);
  const Device device = {.fixed = 1e-3, .row = 1e-3, .token = 1e-4};
  EXPECT_EQ(Watch(device, 64, RunningWidth::kLeastSteps / 2, random).Enough(256), 256);
}

TEST(RunningWidthTest, ReachesTheShareOfWhatAnyWidthDoes) {
  std::mt19937_64 random(TestSeed());
  for (const double row : {2e-3, 1e-3, 5e-4, 2e-4}) {
    const Device device = {.fixed = 2e-3, .row = row, .token = 0};
    const int32_t enough = Watch(device, 64, 3000, random).Enough(1000);
    const auto per_second = [&](double rows) { return rows / (device.fixed + device.row * rows); };
    const double share = per_second(enough) * device.row;  // of the rate at no end of rows
    EXPECT_GE(share, RunningWidth::kShare - 1e-3) << row;
    EXPECT_LE(share, RunningWidth::kShare + 0.03) << row << ": " << enough;
  }
}

TEST(RunningWidthTest, AsManyAsAStepsTimeLeavesRoomFor) {
  std::mt19937_64 random(TestSeed());
  EXPECT_EQ(RunningWidth().Within(1e-3, 256), 256);
  const Device device = {.fixed = 2e-3, .row = 1e-3, .token = 0, .noise = 0.05};
  const RunningWidth width = Watch(device, 32, 3000, random);
  const auto step = [](int32_t rows) { return 2e-3 + 1e-3 * rows; };
  for (const int32_t rows : {24, 40, 60}) {
    EXPECT_NEAR(width.Within(step(rows) / RunningWidth::kMostOfTime, 256), rows, 0.1 * rows + 2);
  }
  // More are of little use, and leave more time to wait.
  constexpr double kNoDeadline = std::numeric_limits<double>::infinity();
  for (const double seconds : {0.2, 6.0, kNoDeadline}) {
    EXPECT_EQ(width.Within(seconds, 256), RunningWidth::kWide) << seconds;
  }
  EXPECT_EQ(width.Within(1e-3, 256), RunningWidth::kLeast);
  const Device slow_to_start = {.fixed = 1e-2, .row = 1e-3, .token = 0, .noise = 0.02};
  const RunningWidth wide = Watch(slow_to_start, 128, 3000, random);
  EXPECT_EQ(wide.Within(kNoDeadline, 1000), wide.Enough(1000));
  EXPECT_NEAR(wide.Within(kNoDeadline, 1000), 190, 30);
}

TEST(RunningWidthTest, NoDeadlineIsSoNearThatADeviceIsNotUsedWell) {
  std::mt19937_64 random(TestSeed());
  const Device device = {.fixed = 1e-2, .row = 1e-3, .token = 0, .noise = 0.02};
  const int32_t width = Watch(device, 128, 3000, random).Within(1e-3, 256);
  const double share = width * device.row / (device.fixed + device.row * width);
  EXPECT_NEAR(share, RunningWidth::kLeastShare, 0.03);
  const Device gpu = {.fixed = 5e-3, .row = 1e-5, .token = 1e-6, .noise = 0.02};
  EXPECT_EQ(Watch(gpu, 256, 3000, random).Within(1e-3, 256), 256);
}

TEST(RunningWidthTest, WidthsAreWholeBlocks) {
  std::mt19937_64 random(TestSeed());
  const Device device = {.fixed = 2e-3, .row = 1e-3, .token = 0, .noise = 0.05};
  const RunningWidth width = Watch(device, 32, 3000, random);
  for (double seconds = 1e-3; seconds < 1; seconds *= 1.1) {
    EXPECT_EQ(width.Within(seconds, 256) % RunningWidth::kBlock, 0) << seconds;
  }
  EXPECT_EQ(width.Within(1, 30), 30);
}

// What steps of other widths would take, of prompts as they come.
TEST(RunningWidthTest, TellsThePaceOfOtherWidths) {
  std::mt19937_64 random(TestSeed());
  EXPECT_FALSE(RunningWidth().PaceOf(8).has_value());
  const Device device = {.fixed = 2e-3, .row = 1e-3, .token = 0, .noise = 0.05};
  RunningWidth width;
  for (int i = 0; i < 2000; ++i) {
    const auto rows = 1 + static_cast<int32_t>(random() % 32);
    width.AddStep(rows, 2 * rows, device.Step(rows, 2 * rows, random));
  }
  for (const int32_t rows : {1, 16, 64, 256}) {
    const double seconds = device.fixed + device.row * rows;
    const auto pace = width.PaceOf(rows);
    ASSERT_TRUE(pace.has_value()) << rows;
    EXPECT_NEAR(pace->step_seconds, seconds, 0.1 * seconds) << rows;
    EXPECT_NEAR(pace->tokens_per_second, 2 * rows / seconds, 0.1 * 2 * rows / seconds) << rows;
  }
  EXPECT_FALSE(width.PaceOf(0).has_value());
  // Steps of one row tell it of those, and nothing of others.
  const Device gpu = {.fixed = 5e-3, .row = 1e-5, .token = 0, .noise = 0.05};
  RunningWidth alone;
  for (int i = 0; i < 2000; ++i) alone.AddStep(1, 1, gpu.Step(1, 1, random));
  EXPECT_FALSE(alone.PaceOf(64).has_value());
}

TEST(RunningWidthTest, ADeviceThatSharesAStepsTimeIsFilled) {
  std::mt19937_64 random(TestSeed());
  const Device gpu = {.fixed = 5e-3, .row = 1e-5, .token = 1e-6, .noise = 0.02};
  EXPECT_EQ(Watch(gpu, 256, 3000, random).Enough(256), 256);
}

TEST(RunningWidthTest, NoiseWidensButDoesNotNarrow) {
  std::mt19937_64 random(TestSeed());
  const Device device = {.fixed = 1e-3, .row = 1e-3, .token = 3e-4, .noise = 0.3};
  const int32_t enough = Watch(device, 64, 3000, random).Enough(256);
  EXPECT_GE(enough, RunningWidth::kLeast);
  EXPECT_LE(enough, 128);
}

// A full queue keeps one width up for minutes.
TEST(RunningWidthTest, WhatIsKnownOfOtherWidthsOutlastsStepsOfOne) {
  std::mt19937_64 random(TestSeed());
  const Device device = {.fixed = 1e-3, .row = 3e-4, .token = 0, .noise = 0.1};
  RunningWidth width = Watch(device, 64, 200, random);
  for (int i = 0; i < 20000; ++i) {
    const int32_t rows = width.Enough(256);
    width.AddStep(rows, rows, device.Step(rows, rows, random));
    if (i % 1000 == 999) {
      ASSERT_GE(width.Enough(256), 50) << i;  // 64 would do
      ASSERT_LE(width.Enough(256), 90) << i;
    }
  }
}

TEST(RunningWidthTest, FollowsADeviceThatBecomesSlower) {
  std::mt19937_64 random(TestSeed());
  RunningWidth width =
      Watch({.fixed = 1e-3, .row = 1e-4, .token = 0, .noise = 0.05}, 200, 5000, random);
  EXPECT_GE(width.Enough(256), 150);
  const Device slower = {.fixed = 1e-3, .row = 1e-3, .token = 0, .noise = 0.05};
  for (int i = 0; i < 8000; ++i) {
    const auto rows = 1 + static_cast<int32_t>(random() % 200);
    width.AddStep(rows, rows, slower.Step(rows, rows, random));
  }
  EXPECT_LE(width.Enough(256), 60);
}

// Steps all alike cannot tell a step's own time from that of its rows. More may run then, and the
// larger steps tell.
TEST(RunningWidthTest, StepsOfOneWidthNarrowNothingThatIsNotKnown) {
  std::mt19937_64 random(TestSeed());
  const Device gpu = {.fixed = 5e-3, .row = 1e-5, .token = 0, .noise = 0.05};
  RunningWidth width;
  for (int i = 0; i < 5000; ++i) width.AddStep(16, 16, gpu.Step(16, 16, random));
  EXPECT_EQ(width.Enough(256), 256);
}

TEST(RunningWidthTest, NeverLeavesItsRange) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    const auto draw = [&](double most) {
      return most * std::generate_canonical<double, 53>(random);
    };
    const Device device = {draw(1e-2), draw(1e-2), draw(1e-3), draw(2.0)};
    const auto most = 1 + static_cast<int32_t>(random() % 300);
    const RunningWidth width = Watch(device, 1 + static_cast<int>(random() % 200), 200, random);
    EXPECT_GE(width.Enough(most), std::min(most, RunningWidth::kLeast));
    EXPECT_LE(width.Enough(most), most);
  }
  RunningWidth odd;
  for (int i = 0; i < 200; ++i) odd.AddStep(i % 3 - 1, 0, i % 2 == 0 ? 0.0 : 1e-3);
  EXPECT_LE(odd.Enough(8), 8);
}

}  // namespace
}  // namespace beamline::running_width_test
