#include "server/accept/lone_calls.h"

#include <gtest/gtest.h>

#include <chrono>

namespace beamline::lone_calls_test {
namespace {

using Clock = LoneCalls::Clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr microseconds kWait(100);

class LoneCallsTest : public testing::Test {
 protected:
  // One that comes after `wait`.
  void Come(Clock::duration wait) {
    now_ += wait;
    calls_.Came(now_ - wait, now_);
  }
  void ComeOneByOne(int count) {
    for (int i = 0; i < count; ++i) Come(kWait);
  }
  bool AreLone() const { return calls_.AreLone(now_); }

  LoneCalls calls_;
  Clock::time_point now_ = Clock::time_point(std::chrono::hours(1));
};

TEST_F(LoneCallsTest, SeveralInARowAreLone) {
  EXPECT_FALSE(AreLone());
  ComeOneByOne(LoneCalls::kSure);  // the first has nothing before it
  EXPECT_FALSE(AreLone());
  ComeOneByOne(1);
  EXPECT_TRUE(AreLone());
  EXPECT_EQ(calls_.last_wait(), kWait);
}

TEST_F(LoneCallsTest, NotWhatWasThereAtOnce) {
  for (int i = 0; i < 100; ++i) {
    now_ += kWait;
    Come(LoneCalls::kAtOnce);
    EXPECT_FALSE(AreLone());
  }
}

TEST_F(LoneCallsTest, SomeThatWereThereAtOnceEndIt) {
  ComeOneByOne(100);
  Come(LoneCalls::kAtOnce);
  Come(LoneCalls::kAtOnce);
  EXPECT_TRUE(AreLone());
  Come(LoneCalls::kAtOnce);
  EXPECT_FALSE(AreLone());
}

TEST_F(LoneCallsTest, NotForLong) {
  ComeOneByOne(100);
  EXPECT_TRUE(calls_.AreLone(now_ + LoneCalls::kLasts));
  EXPECT_FALSE(calls_.AreLone(now_ + LoneCalls::kLasts + microseconds(1)));
  Come(LoneCalls::kLasts + milliseconds(1));
  EXPECT_FALSE(AreLone());
}

TEST_F(LoneCallsTest, ACrowdEndsIt) {
  ComeOneByOne(100);
  calls_.Crowd();
  EXPECT_FALSE(AreLone());
  ComeOneByOne(LoneCalls::kSure);
  EXPECT_TRUE(AreLone());
}

}  // namespace
}  // namespace beamline::lone_calls_test
