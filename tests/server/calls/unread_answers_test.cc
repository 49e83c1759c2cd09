#include "server/calls/unread_answers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/thread_limit.h"

namespace beamline::unread_answers_test {
namespace {

using std::chrono::milliseconds;
using Refusal = UnreadAnswers::Refusal;

constexpr int64_t kMiB = 1 << 20;

TEST(UnreadAnswers, AreBoundedTogether) {
  UnreadAnswers unread(10 * kMiB);
  EXPECT_EQ(unread.Take(6 * kMiB, "a"), Refusal::kNone);
  EXPECT_EQ(unread.Take(5 * kMiB, "b"), Refusal::kAll);
  EXPECT_EQ(unread.bytes(), 6 * kMiB);
  EXPECT_EQ(unread.Take(3 * kMiB, "b"), Refusal::kNone);
  EXPECT_EQ(unread.Take(kMiB, "b"), Refusal::kAll);  // some of it is for clients that have few
  EXPECT_EQ(unread.Take(kMiB, "c"), Refusal::kNone);
  EXPECT_EQ(unread.Take(UnreadAnswers::kSmallBytes + 1, "d"), Refusal::kAll);
  unread.Give(6 * kMiB, "a");
  EXPECT_EQ(unread.Take(4 * kMiB, "c"), Refusal::kNone);
}

TEST(UnreadAnswers, OneClientHasHalf) {
  UnreadAnswers unread(10 * kMiB);
  EXPECT_EQ(unread.Take(3 * kMiB, "a"), Refusal::kNone);
  EXPECT_EQ(unread.Take(3 * kMiB, "a"), Refusal::kClient);
  EXPECT_EQ(unread.Take(2 * kMiB, "a"), Refusal::kNone);
  EXPECT_EQ(unread.bytes_of("a"), 5 * kMiB);
  EXPECT_EQ(unread.Take(4 * kMiB, "b"), Refusal::kNone);
  unread.Give(2 * kMiB, "a");
  unread.Give(3 * kMiB, "a");
  EXPECT_EQ(unread.bytes_of("a"), 0);
  EXPECT_EQ(unread.Take(5 * kMiB, "a"), Refusal::kNone);
  EXPECT_EQ(unread.bytes(), 9 * kMiB);
}

TEST(UnreadAnswers, SmallOnesAreLetThrough) {
  UnreadAnswers unread(kMiB);
  EXPECT_EQ(unread.Take(kMiB, "a"), Refusal::kNone);
  EXPECT_EQ(unread.Take(UnreadAnswers::kSmallBytes, "a"), Refusal::kNone);
  EXPECT_EQ(unread.bytes(), kMiB + UnreadAnswers::kSmallBytes);
  unread.Give(UnreadAnswers::kSmallBytes, "a");
  EXPECT_EQ(unread.bytes(), kMiB);
}

TEST(UnreadAnswers, WhoIsAloneMayHaveAnySize) {
  UnreadAnswers unread(0);
  EXPECT_EQ(unread.Take(100 * kMiB, "a"), Refusal::kNone);
  EXPECT_EQ(unread.Take(kMiB, "b"), Refusal::kAll);
  unread.Give(100 * kMiB, "a");
  EXPECT_EQ(unread.Take(kMiB, "b"), Refusal::kNone);
}

TEST(UnreadAnswers, WhoTakesTooLongIsEnded) {
  UnreadAnswers unread({.limit = 0, .patience = milliseconds(20), .least_bytes_per_second = kMiB});
  std::atomic<int> ended = 0;
  const int first = 0, second = 0, third = 0, large = 0;
  // As a call does that is over then.
  unread.Watch(&first, 0, [&] {
    unread.Forget(&first);
    ++ended;
  });
  unread.Watch(&second, 0, [&] { ++ended; });
  unread.Watch(&third, 0, [] { ADD_FAILURE() << "it was read"; });
  unread.Watch(&large, 3600 * kMiB, [] { ADD_FAILURE() << "it has an hour"; });
  unread.Forget(&third);
  const auto until = Clock::now() + std::chrono::seconds(20);
  while (ended < 2 && Clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(ended, 2);
  unread.Forget(&second);  // again
  std::this_thread::sleep_for(milliseconds(30));
  unread.Forget(&large);
  EXPECT_EQ(ended, 2);
}

TEST(UnreadAnswers, WithoutAThreadTheyAreEndedLater) {
  UnreadAnswers unread({.limit = 0, .patience = milliseconds(1), .least_bytes_per_second = kMiB});
  std::atomic<int> ended = 0;
  const int first = 0, second = 0;
  {
    const ThreadLimit limit(0);
    unread.Watch(&first, 0, [&] { ++ended; });
  }
  unread.Watch(&second, 0, [&] { ++ended; });
  const auto until = Clock::now() + std::chrono::seconds(20);
  while (ended < 2 && Clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(ended, 2);
}

TEST(UnreadAnswers, CallsComeAndGoWhileOthersAreEnded) {
  UnreadAnswers unread({.limit = 0, .patience = milliseconds(1), .least_bytes_per_second = kMiB});
  std::atomic<int> ended = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        std::atomic<bool> alive = true;
        unread.Watch(&alive, 0, [&] {
          EXPECT_TRUE(alive);
          ++ended;
        });
        if (i % 50 == 0) std::this_thread::sleep_for(milliseconds(3));
        unread.Forget(&alive);
        alive = false;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(ended, 0);
}

}  // namespace
}  // namespace beamline::unread_answers_test
