#include "server/calls/connection_bytes.h"

#include <gtest/gtest.h>

#include <chrono>

namespace beamline::connection_bytes_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int64_t kMib = 1 << 20;

class ConnectionBytesTest : public testing::Test {
 protected:
  Clock::time_point At(int ms) const { return begin_ + milliseconds(ms); }

  const Clock::time_point begin_ = Clock::now();
  ConnectionBytes bytes_;
};

TEST_F(ConnectionBytesTest, KeepsWhatHasComeAndIsNotWhole) {
  bytes_.Sample(1000, At(0), std::nullopt);
  EXPECT_EQ(bytes_.kept(), 0);  // no message is being read: it is something else
  bytes_.Sample(1000 + 3 * kMib, At(500), At(1));
  EXPECT_EQ(bytes_.kept(), 3 * kMib);
  bytes_.Deliver(2 * kMib);
  bytes_.Sample(1000 + 3 * kMib, At(600), At(1));
  EXPECT_LE(bytes_.kept(), kMib);
  EXPECT_GE(bytes_.kept(), kMib - 2000);  // heads of frames
  bytes_.Sample(1000 + 3 * kMib, At(700), std::nullopt);
  EXPECT_EQ(bytes_.kept(), 0);
}

// Headers of many calls are nothing that is kept while all that is being read is young.
TEST_F(ConnectionBytesTest, WhatIsNoMessageCountsNotForLong) {
  bytes_.Sample(0, At(0), std::nullopt);
  for (int s = 1; s < 100; ++s) bytes_.Sample(s * kMib, At(1000 * s), At(1000 * s - 500));
  EXPECT_LE(bytes_.kept(), kMib);
  // But as long as a read lasts it may be its message.
  for (int s = 100; s < 110; ++s) bytes_.Sample(s * kMib, At(1000 * s), At(99'000));
  EXPECT_GE(bytes_.kept(), 10 * kMib);
  EXPECT_LE(bytes_.kept(), 11 * kMib);
}

// What came before a sample, and was counted as no message, is a message after all.
TEST_F(ConnectionBytesTest, AMessageThatWasTakenForNoneHidesNoOther) {
  bytes_.Sample(5 * kMib, At(0), std::nullopt);
  bytes_.Deliver(5 * kMib);
  bytes_.Sample(5 * kMib, At(100), At(50));
  bytes_.Sample(9 * kMib, At(200), At(50));
  EXPECT_GE(bytes_.kept(), 4 * kMib);
}

TEST_F(ConnectionBytesTest, WhatIsGivenUpIsKeptNoMore) {
  bytes_.Sample(0, At(0), std::nullopt);
  for (int i = 1; i <= 20; ++i) bytes_.Sample(i * kMib, At(500 * i), At(1));
  EXPECT_EQ(bytes_.kept(), 20 * kMib);
  EXPECT_EQ(bytes_.ReceivedSince(At(10'000 - 2000)), 4 * kMib);
  EXPECT_EQ(bytes_.ReceivedSince(At(10'000 - 2100)), 5 * kMib);  // at most
  bytes_.GiveUpBefore(At(8000));
  EXPECT_EQ(bytes_.kept(), 4 * kMib);
  bytes_.GiveUpBefore(At(10'000));
  EXPECT_EQ(bytes_.kept(), 0);
}

TEST_F(ConnectionBytesTest, OldSamplesAreForgotten) {
  bytes_.Sample(0, At(0), std::nullopt);
  for (int i = 1; i <= 1000; ++i) bytes_.Sample(i, At(100 * i), At(1));
  EXPECT_EQ(bytes_.ReceivedSince(At(1)), INT64_MAX);
  EXPECT_NE(bytes_.ReceivedSince(At(100'000 - 8000)), INT64_MAX);
  EXPECT_EQ(bytes_.kept(), 1000);
}

}  // namespace
}  // namespace beamline::connection_bytes_test
