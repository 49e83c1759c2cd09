#include "server/net/connection_table.h"

#include <gtest/gtest.h>

#include <set>

namespace beamline::connection_table_test {
namespace {

ConnectionTable::TimePoint At(int seconds) {
  return ConnectionTable::TimePoint(std::chrono::seconds(seconds));
}

TEST(ConnectionTable, LimitsAllAndEachPeer) {
  ConnectionTable table(3, 2);
  table.Add(10, "a", At(1));
  EXPECT_FALSE(table.IsFullFor("a"));
  table.Add(11, "a", At(2));
  EXPECT_TRUE(table.IsFullFor("a"));
  EXPECT_FALSE(table.IsFullFor("b"));
  EXPECT_FALSE(table.full());
  table.Add(12, "b", At(3));
  EXPECT_TRUE(table.full());
  table.Remove(11);
  EXPECT_FALSE(table.IsFullFor("a"));
  EXPECT_FALSE(table.full());
}

TEST(ConnectionTable, KeepsTheLastPlacesForPeersThatHaveFew) {
  ConnectionTable table(32, 32);
  int fd = 10;
  while (!table.IsFullFor("a")) table.Add(fd++, "a", At(1));
  EXPECT_EQ(table.num_of("a"), 30);
  EXPECT_FALSE(table.full());
  for (const char* peer : {"b", "c"}) {
    EXPECT_FALSE(table.IsFullFor(peer));
    table.Add(fd++, peer, At(2));
  }
  EXPECT_TRUE(table.full());
  // A place that a new peer takes is not one of the few's own.
  EXPECT_FALSE(table.IsFullFor("d"));
  EXPECT_TRUE(table.IsFullFor("a"));
  table.Remove(10);
  EXPECT_TRUE(table.IsFullFor("a"));
  EXPECT_FALSE(table.IsFullFor("d"));
}

TEST(ConnectionTable, KnowsWhoHasBeenSilentTheLongest) {
  ConnectionTable table(10, 10);
  EXPECT_FALSE(table.OldestSilent().has_value());
  EXPECT_FALSE(table.NextDeadline().has_value());
  table.Add(10, "a", At(1));
  table.Add(11, "b", At(2));
  table.Add(12, "a", At(3));
  EXPECT_EQ(table.OldestSilent(), 10);
  EXPECT_EQ(table.OldestSilentOf("b"), 11);
  EXPECT_FALSE(table.OldestSilentOf("c").has_value());
  table.HandOver(10, 77);
  EXPECT_FALSE(table.IsSilent(10));
  EXPECT_EQ(table.OldestSilent(), 11);
  EXPECT_EQ(table.OldestSilentOf("a"), 12);
  EXPECT_EQ(table.NextDeadline(), At(2));
  EXPECT_EQ(table.num_handed_over(), 1u);
}

TEST(ConnectionTable, ReadyOnesAreSilentUntilTheyAreHandedOver) {
  ConnectionTable table(10, 10);
  for (const int fd : {10, 11, 12}) table.Add(fd, "a", At(1));
  for (const int fd : {12, 10, 11}) table.SetReady(fd);
  EXPECT_TRUE(table.IsReady(10));
  EXPECT_TRUE(table.IsSilent(10));
  EXPECT_EQ(table.PeerOf(10), "a");
  EXPECT_EQ(table.ready(), (std::list<int>{12, 10, 11}));
  table.HandOver(10, 77);
  EXPECT_FALSE(table.IsReady(10));
  table.Add(12, "b", At(2));  // another connection, which has not spoken
  EXPECT_FALSE(table.IsReady(12));
  EXPECT_EQ(table.ready(), (std::list<int>{11}));
  table.Remove(11);
  EXPECT_TRUE(table.ready().empty());
}

TEST(ConnectionTable, RemovesTheClosedOnesAmongThoseHandedOver) {
  ConnectionTable table(10, 10);
  for (const int fd : {10, 11, 12}) table.Add(fd, "a", At(1));
  table.HandOver(10, 100);
  table.HandOver(11, 110);
  std::set<std::pair<int, uint64_t>> asked;
  table.RemoveClosed([&](int fd, uint64_t identity) {
    asked.insert({fd, identity});
    return fd != 10;
  });
  EXPECT_EQ(asked, (std::set<std::pair<int, uint64_t>>{{10, 100}, {11, 110}}));
  EXPECT_EQ(table.num_handed_over(), 1u);
  EXPECT_TRUE(table.IsSilent(12));
}

TEST(ConnectionTable, TheIdleOneThatCameFirstGoes) {
  ConnectionTable table(10, 10);
  for (const int fd : {10, 11, 12, 13}) table.Add(fd, fd == 13 ? "b" : "a", At(fd));
  std::set<int> busy;
  const auto is_idle = [&](int fd) { return !busy.contains(fd); };
  EXPECT_EQ(table.OldestIdle(nullptr, is_idle), std::nullopt);  // all are silent
  for (const int fd : {10, 11, 13}) table.HandOver(fd, 100);
  const std::string a = "a", b = "b", c = "c";
  EXPECT_EQ(table.OldestIdle(nullptr, is_idle), 10);
  EXPECT_EQ(table.OldestIdle(&b, is_idle), 13);
  EXPECT_EQ(table.OldestIdle(&c, is_idle), std::nullopt);
  busy = {10, 13};
  EXPECT_EQ(table.OldestIdle(nullptr, is_idle), 11);
  EXPECT_EQ(table.OldestIdle(&b, is_idle), std::nullopt);
  busy.clear();
  table.Remove(11);
  EXPECT_EQ(table.DeadlineOf(10), At(10));
  EXPECT_EQ(table.IdentityOf(10), 100u);
  EXPECT_EQ(table.OldestIdle(&a, is_idle), 10);
  table.RemoveClosed([](int, uint64_t) { return false; });
  EXPECT_EQ(table.OldestIdle(nullptr, is_idle), std::nullopt);
}

TEST(ConnectionTable, ManyBusyOnesAreLookedAtInTurns) {
  ConnectionTable table(1000, 1000);
  for (int fd = 0; fd < 500; ++fd) {
    table.Add(fd, "a", At(fd));
    table.HandOver(fd, 1);
  }
  int looks = 0;
  const auto is_idle = [&](int fd) {
    ++looks;
    return fd == 499;
  };
  int tries = 1;
  while (!table.OldestIdle(nullptr, is_idle).has_value() && tries < 100) ++tries;
  EXPECT_EQ(looks, 500);  // each once
  EXPECT_GT(tries, 5);
}

TEST(ConnectionTable, ANumberThatComesAgainIsANewConnection) {
  ConnectionTable table(10, 10);
  table.Add(10, "a", At(1));
  table.HandOver(10, 100);
  table.Add(10, "b", At(2));
  EXPECT_TRUE(table.IsSilent(10));
  EXPECT_EQ(table.num_handed_over(), 0u);
  EXPECT_EQ(table.num_peers(), 1u);
}

TEST(ConnectionTable, PeersLeaveNothingBehind) {
  ConnectionTable table(10, 10);
  for (int i = 0; i < 1000; ++i) {
    table.Add(i, std::to_string(i), At(i));
    if (i % 2 == 0) table.HandOver(i, 1);
    table.Remove(i);
  }
  EXPECT_EQ(table.num_peers(), 0u);
  EXPECT_TRUE(table.silent().empty());
}

}  // namespace
}  // namespace beamline::connection_table_test
