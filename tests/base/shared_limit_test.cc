#include "base/shared_limit.h"

#include <gtest/gtest.h>

namespace beamline::shared_limit_test {
namespace {

constexpr int64_t kLimit = 64;

// Takes one by one until there is no room. Returns how many these were.
int64_t TakeAll(ClientCounts& counts, const std::string& client) {
  int64_t taken = 0;
  for (; counts.LimitFor(client, kLimit).HasRoom(); ++taken) counts.Take(client, 1);
  return taken;
}

TEST(SharedLimit, TheLastSixteenthIsForClientsThatHaveFew) {
  ClientCounts counts;
  EXPECT_EQ(TakeAll(counts, "greedy"), kLimit - kLimit / 16);
  EXPECT_EQ(TakeAll(counts, "other"), kLimit / 16);
  EXPECT_EQ(counts.total(), kLimit);
  EXPECT_FALSE(counts.LimitFor("third", kLimit).HasRoom());
  counts.Give("other", 1);
  EXPECT_FALSE(counts.LimitFor("greedy", kLimit).HasRoom());
  EXPECT_TRUE(counts.LimitFor("third", kLimit).HasRoom());
  counts.Give("greedy", kLimit - kLimit / 16);
  EXPECT_EQ(counts.of("greedy"), 0);
  EXPECT_EQ(counts.total(), kLimit / 16 - 1);
}

TEST(SharedLimit, FewIsLessThanHalfOfAnEvenShare) {
  const SharedLimit scarce{.limit = 64, .taken = 61, .own = 15, .num_clients = 2};
  EXPECT_TRUE(scarce.HasRoom());
  EXPECT_FALSE(scarce.HasRoom(2));  // 17 of the 32 that are a share each
  EXPECT_FALSE((SharedLimit{.limit = 64, .taken = 61, .own = 16, .num_clients = 2}).HasRoom());
  // Where shares are less than one, each client still has one.
  EXPECT_TRUE((SharedLimit{.limit = 64, .taken = 63, .own = 0, .num_clients = 64}).HasRoom());
  EXPECT_FALSE((SharedLimit{.limit = 64, .taken = 62, .own = 1, .num_clients = 64}).HasRoom());
}

TEST(SharedLimit, SmallLimitsReserveNothing) {
  EXPECT_TRUE((SharedLimit{.limit = 15, .taken = 14, .own = 14}).HasRoom());
  EXPECT_FALSE((SharedLimit{.limit = 15, .taken = 15, .own = 15}).HasRoom());
  EXPECT_FALSE((SharedLimit{.limit = 0}).HasRoom());
}

TEST(SharedLimit, SeveralAreTakenTogetherOrNotAtAll) {
  const SharedLimit half{.limit = 64, .taken = 30, .own = 30};
  EXPECT_TRUE(half.HasRoom(30));
  EXPECT_FALSE(half.HasRoom(31));  // one of them would be of the last sixteenth
  EXPECT_TRUE((SharedLimit{.limit = 64, .taken = 30, .own = 0, .num_clients = 2}).HasRoom(30));
}

}  // namespace
}  // namespace beamline::shared_limit_test
