#include "server/calls/caller.h"

#include <gtest/gtest.h>

#include <limits>

#include "server/conversion/request.h"

namespace beamline::caller_test {
namespace {

using std::chrono::system_clock;

gpr_timespec InSeconds(int64_t seconds) {
  return gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(seconds, GPR_TIMESPAN));
}

TEST(DeadlineOf, IsTheCalls) {
  const auto left = DeadlineOf(InSeconds(60)) - system_clock::now();
  EXPECT_GT(left, std::chrono::seconds(50));
  EXPECT_LE(left, std::chrono::seconds(61));
  EXPECT_LT(DeadlineOf(InSeconds(-60)), system_clock::now());
  const gpr_timespec monotonic =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_seconds(60, GPR_TIMESPAN));
  EXPECT_GT(DeadlineOf(monotonic), system_clock::now());
  EXPECT_LT(DeadlineOf(monotonic), system_clock::now() + std::chrono::seconds(90));
  EXPECT_EQ(DeadlineOf(gpr_inf_future(GPR_CLOCK_REALTIME)), system_clock::time_point::max());
}

TEST(DeadlineOf, IsNoneWhereTheClockDoesNotReach) {
  constexpr int64_t kYear = 31556952;
  for (const int64_t years : {101, 235, 236, 237, 292, 293, 585, 11415, 1000000}) {
    const auto deadline = DeadlineOf(InSeconds(years * kYear));
    EXPECT_EQ(deadline, system_clock::time_point::max()) << years;
    EXPECT_FALSE(EngineDeadline(deadline, system_clock::now(), Clock::now()).has_value());
  }
  EXPECT_EQ(DeadlineOf({std::numeric_limits<int64_t>::max() - 1, 0, GPR_CLOCK_REALTIME}),
            system_clock::time_point::max());
  const auto far =
      EngineDeadline(DeadlineOf(InSeconds(99 * kYear)), system_clock::now(), Clock::now());
  ASSERT_TRUE(far.has_value());
  EXPECT_GT(*far, Clock::now() + std::chrono::years(98));
}

}  // namespace
}  // namespace beamline::caller_test
