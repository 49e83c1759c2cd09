#include "server/calls/unread_answers.h"

#include <gtest/gtest.h>

namespace beamline::unread_answers_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(UnreadAnswers, AreBoundedTogether) {
  UnreadAnswers unread(10 * kMiB);
  EXPECT_TRUE(unread.Take(6 * kMiB));
  EXPECT_FALSE(unread.Take(5 * kMiB));
  EXPECT_EQ(unread.bytes(), 6 * kMiB);
  EXPECT_TRUE(unread.Take(4 * kMiB));
  EXPECT_FALSE(unread.Take(UnreadAnswers::kSmallBytes + 1));
  unread.Give(6 * kMiB);
  EXPECT_TRUE(unread.Take(5 * kMiB));
}

TEST(UnreadAnswers, SmallOnesAreLetThrough) {
  UnreadAnswers unread(kMiB);
  EXPECT_TRUE(unread.Take(kMiB));
  EXPECT_TRUE(unread.Take(UnreadAnswers::kSmallBytes));
  EXPECT_EQ(unread.bytes(), kMiB + UnreadAnswers::kSmallBytes);
}

TEST(UnreadAnswers, WhoIsAloneMayHaveAnySize) {
  UnreadAnswers unread(0);
  EXPECT_TRUE(unread.Take(100 * kMiB));
  EXPECT_FALSE(unread.Take(kMiB));
  unread.Give(100 * kMiB);
  EXPECT_TRUE(unread.Take(kMiB));
}

}  // namespace
}  // namespace beamline::unread_answers_test
