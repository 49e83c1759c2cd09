#include "server/calls/caller.h"

#include <gtest/gtest.h>

#include <limits>

#include "server/wire/request.h"

namespace beamline::caller_test {
namespace {

gpr_timespec InSeconds(int64_t seconds, gpr_clock_type clock = GPR_CLOCK_MONOTONIC) {
  return gpr_time_add(gpr_now(clock), gpr_time_from_seconds(seconds, GPR_TIMESPAN));
}

TEST(DeadlineOf, IsTheCalls) {
  for (const gpr_clock_type clock : {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME}) {
    const auto deadline = DeadlineOf(InSeconds(60, clock));
    ASSERT_TRUE(deadline.has_value());
    EXPECT_GT(*deadline, Clock::now() + std::chrono::seconds(50));
    EXPECT_LE(*deadline, Clock::now() + std::chrono::seconds(61));
    EXPECT_LT(DeadlineOf(InSeconds(-60, clock)), Clock::now());
    EXPECT_FALSE(DeadlineOf(gpr_inf_future(clock)).has_value());
    EXPECT_LT(DeadlineOf(gpr_inf_past(clock)), Clock::now());
  }
}

TEST(DeadlineOf, IsNoneWhereTheClockDoesNotReach) {
  constexpr int64_t kYear = 31556952;
  for (const int64_t years : {101, 235, 236, 237, 292, 293, 585, 11415, 1000000}) {
    EXPECT_FALSE(DeadlineOf(InSeconds(years * kYear)).has_value()) << years;
  }
  for (const gpr_clock_type clock : {GPR_CLOCK_MONOTONIC, GPR_CLOCK_REALTIME}) {
    EXPECT_FALSE(DeadlineOf({std::numeric_limits<int64_t>::max() - 1, 0, clock}).has_value());
  }
  const auto far = EngineDeadline(DeadlineOf(InSeconds(99 * kYear)), Clock::now());
  ASSERT_TRUE(far.has_value());
  EXPECT_GT(*far, Clock::now() + std::chrono::years(98));
}

}  // namespace
}  // namespace beamline::caller_test
