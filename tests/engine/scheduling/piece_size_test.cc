#include "engine/scheduling/piece_size.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace beamline::piece_size_test {
namespace {

constexpr double kGap = 0.05;
constexpr int32_t kMost = 4096;

// A device whose prompt tokens cost more the more come before them.
struct Device {
  double decode_seconds = 0.005;
  double mixed_seconds = 0.001;  // more for a step that has any
  double token_seconds = 0.00002;
  double context_seconds = 0;  // of a token, for each before it

  double Step(int32_t tokens, int64_t context) const {
    const double each = token_seconds + context_seconds * static_cast<double>(context);
    return decode_seconds + (tokens > 0 ? mixed_seconds + tokens * each : 0);
  }
};

// The longest step while a prompt is read beside streams, its first `ignored` pieces aside.
double LongestStep(const Device& device, int64_t prompt, PieceSize& size, int ignored = 0) {
  for (int step = 0; step < 50; ++step) size.AddStep(0, 32, device.Step(0, 0));
  double longest = 0;
  int pieces = 0;
  for (int64_t done = 0; done < prompt; ++pieces) {
    const auto tokens =
        static_cast<int32_t>(std::min<int64_t>(size.BesideDecoding(), prompt - done));
    const double seconds = device.Step(tokens, done);
    size.AddStep(tokens, 32, seconds);
    done += tokens;
    if (pieces >= ignored) longest = std::max(longest, seconds);
  }
  return longest;
}

TEST(PieceSizeTest, StepsComeToTakeTheGap) {
  PieceSize size(kGap, kMost);
  const Device device;
  const double longest = LongestStep(device, 100000, size, /*ignored=*/5);
  EXPECT_LE(longest, kGap);
  EXPECT_GT(longest, 0.8 * kGap);
  EXPECT_GT(size.BesideDecoding(), 1500);  // 0.9 x 50 ms less 6 ms, of 20 us each
}

TEST(PieceSizeTest, PiecesShrinkAsTheContextGrows) {
  PieceSize size(kGap, kMost);
  const Device device = {.context_seconds = 2e-9};  // ten times as much at 100,000 tokens
  EXPECT_LE(LongestStep(device, 100000, size, /*ignored=*/5), 1.05 * kGap);
  EXPECT_LT(size.BesideDecoding(), 300);
}

TEST(PieceSizeTest, AStepMayTakeTwiceWhatDecodingTakes) {
  PieceSize size(kGap, kMost);
  const Device slow = {.decode_seconds = 0.2, .token_seconds = 0.002};
  const double longest = LongestStep(slow, 5000, size, /*ignored=*/5);
  EXPECT_LE(longest, 0.42);
  EXPECT_GT(longest, 0.35);
}

TEST(PieceSizeTest, AlonePromptsComeInLargePieces) {
  PieceSize size(kGap, kMost);
  EXPECT_EQ(size.Alone(), PieceSize::kFirst);
  size.AddStep(100, 0, 100 * 0.00002);
  EXPECT_EQ(size.Alone(), kMost);
  size.AddStep(4000, 0, 4000 * 0.01);
  EXPECT_EQ(size.Alone(), PieceSize::kFewestAlone);
}

// A short prompt's tokens cost as much as its step, and say nothing of a piece's.
TEST(PieceSizeTest, ShortPromptsDoNotMakePiecesSmall) {
  PieceSize size(kGap, kMost);
  const Device device;
  LongestStep(device, 20000, size);
  const int32_t before = size.BesideDecoding();
  for (int step = 0; step < 100; ++step) {
    size.AddStep(5, 32, device.Step(5, 0));
    size.AddStep(0, 32, device.Step(0, 0));
  }
  EXPECT_GT(size.BesideDecoding(), before * 9 / 10);
}

// Prompts that begin leave room for those that are late in their context.
TEST(PieceSizeTest, ALatePromptBesideNewOnesKeepsTheGap) {
  PieceSize size(kGap, kMost);
  const Device device = {.context_seconds = 2e-9};
  LongestStep(device, 60000, size);
  for (int round = 0; round < 20; ++round) {
    for (int step = 0; step < 5; ++step) {
      const int32_t tokens = size.BesideDecoding();
      size.AddStep(tokens, 32, device.Step(tokens, 1000));
    }
    const int32_t tokens = size.BesideDecoding();
    const double seconds = device.Step(tokens, 60000);
    EXPECT_LE(seconds, round < 2 ? 2 * kGap : 1.6 * kGap) << round;
    size.AddStep(tokens, 32, seconds);
  }
}

TEST(PieceSizeTest, WithoutAGapTheStepIsTheLimit) {
  PieceSize size(0, kMost);
  size.AddStep(1000, 10, 100);
  EXPECT_EQ(size.BesideDecoding(), kMost);
  EXPECT_EQ(size.Alone(), kMost);
}

TEST(PieceSizeTest, NoSizeLeavesItsBounds) {
  for (const int32_t most : {1, 5, 16, 100}) {
    PieceSize size(kGap, most);
    for (const double seconds : {1e-9, 1e-3, 10.0, 1e6, 1e-9}) {
      size.AddStep(3, 2, seconds);
      size.AddStep(0, 2, seconds);
      EXPECT_GE(size.BesideDecoding(), 1);
      EXPECT_LE(size.BesideDecoding(), most);
      EXPECT_GE(size.Alone(), 1);
      EXPECT_LE(size.Alone(), most);
    }
  }
}

}  // namespace
}  // namespace beamline::piece_size_test
