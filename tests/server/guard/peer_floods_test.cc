#include "server/guard/peer_floods.h"

#include <gtest/gtest.h>

#include <chrono>

namespace beamline::peer_floods_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Sends more resets than an address may.
void Overflow(PeerFlood& flood, PeerFlood::TimePoint now) {
  while (flood.AddReset(now)) continue;
}

class PeerFloodTest : public testing::Test {
 protected:
  int Opened(int most) {
    int count = 0;
    for (; count < most && flood_.MayOpen(now_); ++count) flood_.Open(now_);
    return count;
  }
  // Within nine seconds from now on, where a client always has another one.
  int OpenedInNineSeconds() {
    int count = 0;
    for (int i = 0; i < 450; ++i) {
      now_ += milliseconds(20);
      count += Opened(1000);
    }
    return count;
  }

  PeerFlood flood_;
  PeerFlood::TimePoint now_ = PeerFlood::TimePoint() + std::chrono::hours(1);
};

TEST_F(PeerFloodTest, ConnectionsArePaced) {
  EXPECT_EQ(Opened(5000), 2048);
  EXPECT_NEAR(OpenedInNineSeconds(), 4608, 1);
}

TEST_F(PeerFloodTest, ThoseOfAFloodComeSlower) {
  for (int i = 0; i < 2000; ++i) EXPECT_TRUE(flood_.AddReset(now_));
  EXPECT_EQ(Opened(100), 100);
  EXPECT_FALSE(flood_.AddReset(now_));
  EXPECT_EQ(Opened(100), 0);
  EXPECT_NEAR(OpenedInNineSeconds(), 576, 1);
  now_ += seconds(10);
  EXPECT_EQ(Opened(5000), 2048);
}

TEST_F(PeerFloodTest, AFloodEndsNoEarlierThanItsLastFault) {
  Overflow(flood_, now_);
  now_ += seconds(9);
  Overflow(flood_, now_);
  now_ += seconds(9);
  EXPECT_EQ(Opened(1000), 64);
}

TEST_F(PeerFloodTest, FinishedHandshakesDoNotCount) {
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(flood_.MayBeginHandshake(now_));
    flood_.BeginHandshake(now_);
    flood_.FinishHandshake();
  }
  int count = 0;
  for (; count < 5000 && flood_.MayBeginHandshake(now_); ++count) flood_.BeginHandshake(now_);
  EXPECT_EQ(count, 512);
  now_ += seconds(1);
  for (count = 0; count < 5000 && flood_.MayBeginHandshake(now_); ++count) {
    flood_.BeginHandshake(now_);
  }
  EXPECT_EQ(count, 256);
}

// Threads read the clock before they take their turn.
TEST_F(PeerFloodTest, TimeDoesNotGoBack) {
  for (int i = 0; i < 2000; ++i) EXPECT_TRUE(flood_.AddReset(now_));
  EXPECT_FALSE(flood_.AddReset(now_ - seconds(1)));
  EXPECT_FALSE(flood_.AddReset(now_));
}

TEST(PeerFloods, AreForgottenWhenTheyAreOver) {
  PeerFloods floods;
  const auto now = PeerFlood::TimePoint() + std::chrono::hours(1);
  Overflow(*floods.Of("a"), now);
  auto held = floods.Of("b");
  EXPECT_EQ(floods.Of("b"), held);
  EXPECT_TRUE(floods.Of("c")->AddReset(now));
  floods.Of("d");
  EXPECT_EQ(floods.size(), 4U);
  floods.Forget(now);
  EXPECT_EQ(floods.size(), 3U);
  floods.Forget(now + seconds(1));
  EXPECT_EQ(floods.size(), 2U);
  floods.Forget(now + seconds(11));
  EXPECT_EQ(floods.size(), 1U);
  held = nullptr;
  floods.Forget(now + seconds(11));
  EXPECT_EQ(floods.size(), 0U);
}

}  // namespace
}  // namespace beamline::peer_floods_test
