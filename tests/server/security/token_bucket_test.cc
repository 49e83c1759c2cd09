#include "server/security/token_bucket.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "tests/test_seed.h"

namespace beamline::token_bucket_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TokenBucket::Time kBegin{std::chrono::hours(1)};

TEST(TokenBucket, BeginsFullAndFillsAtItsRate) {
  TokenBucket bucket({.tokens_per_second = 10, .burst = 100}, kBegin);
  EXPECT_TRUE(bucket.IsFullAt(kBegin));
  EXPECT_EQ(bucket.Take(100, kBegin), std::nullopt);
  EXPECT_EQ(bucket.Take(1, kBegin), milliseconds(100));
  EXPECT_EQ(bucket.Take(30, kBegin + seconds(1)), seconds(2));
  EXPECT_EQ(bucket.Take(30, kBegin + seconds(3)), std::nullopt);
  EXPECT_FALSE(bucket.IsFullAt(kBegin + seconds(12)));
  EXPECT_TRUE(bucket.IsFullAt(kBegin + seconds(13)));
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kBegin + seconds(1000)), 100);
}

TEST(TokenBucket, WithoutABurstItHoldsAMinutes) {
  const QuotaLimits limits = {.tokens_per_second = 7};
  EXPECT_EQ(limits.capacity(), 420);
  EXPECT_FALSE(QuotaLimits{}.limits());
}

// More than it ever holds goes when it is full, and is paid for afterwards.
TEST(TokenBucket, TakesMoreThanItHoldsAsADebt) {
  TokenBucket bucket({.tokens_per_second = 10, .burst = 100}, kBegin);
  EXPECT_EQ(bucket.Take(1, kBegin), std::nullopt);
  EXPECT_EQ(bucket.Take(250, kBegin), milliseconds(100));
  EXPECT_EQ(bucket.Take(250, kBegin + milliseconds(100)), std::nullopt);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kBegin + milliseconds(100)), -150);
  EXPECT_EQ(bucket.Take(1, kBegin + milliseconds(100)), milliseconds(15100));
}

TEST(TokenBucket, WhatIsGivenBackIsThereAtOnce) {
  TokenBucket bucket({.tokens_per_second = 10, .burst = 100}, kBegin);
  EXPECT_EQ(bucket.Take(90, kBegin), std::nullopt);
  bucket.Give(80, kBegin);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kBegin), 90);
  bucket.Give(80, kBegin);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kBegin), 100);
  bucket.TakeAnyway(130, kBegin);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kBegin), -30);
}

// As of threads that read the clock before they wait for each other.
TEST(TokenBucket, ATimeThatLiesBeforeCountsAsNow) {
  TokenBucket bucket({.tokens_per_second = 10, .burst = 100}, kBegin + seconds(5));
  EXPECT_EQ(bucket.Take(100, kBegin), std::nullopt);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kBegin + seconds(4)), 0);
  EXPECT_EQ(bucket.Take(10, kBegin + seconds(2)), seconds(1));
  EXPECT_EQ(bucket.Take(10, kBegin + seconds(6)), std::nullopt);
}

TEST(TokenBucket, NewLimitsKeepWhatIsThere) {
  TokenBucket bucket({.tokens_per_second = 10, .burst = 100}, kBegin);
  EXPECT_EQ(bucket.Take(50, kBegin), std::nullopt);
  bucket.SetLimits({.tokens_per_second = 100, .burst = 1000}, kBegin + seconds(1));
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kBegin + seconds(1)), 60);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kBegin + seconds(2)), 160);
  bucket.SetLimits({.tokens_per_second = 1, .burst = 20}, kBegin + seconds(2));
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kBegin + seconds(2)), 20);
}

// Whoever comes when he was told to is let in, and nobody gets more than the burst and the rate.
TEST(TokenBucket, ItsWaitsAreTrueAndItsRateHolds) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    const auto draw = [&random](int64_t most) {
      return std::uniform_int_distribution<int64_t>(1, most)(random);
    };
    const int64_t most = draw(QuotaLimits::kMostTokensPerSecond);
    const QuotaLimits limits = {.tokens_per_second = draw(most), .burst = draw(most)};
    TokenBucket bucket(limits, kBegin);
    TokenBucket::Time now = kBegin;
    double taken = 0, largest = 0;
    for (int i = 0; i < 200; ++i) {
      const int64_t tokens = draw(2 * limits.burst);
      if (const auto wait = bucket.Take(tokens, now); wait.has_value()) {
        ASSERT_GT(wait->count(), 0);
        now += *wait;
        ASSERT_EQ(bucket.Take(tokens, now), std::nullopt) << tokens;
      }
      taken += static_cast<double>(tokens);
      largest = std::max(largest, static_cast<double>(tokens));
      const double seconds = std::chrono::duration<double>(now - kBegin).count();
      ASSERT_LE(taken, seconds * static_cast<double>(limits.tokens_per_second) +
                           static_cast<double>(limits.burst) + largest + 1);
    }
  }
}

}  // namespace
}  // namespace beamline::token_bucket_test
