#include "engine/scheduling/recent_clients.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace beamline::recent_clients_test {
namespace {

Clock::time_point At(int ms) { return Clock::time_point(std::chrono::milliseconds(ms)); }

TEST(RecentClientsTest, CountsThoseOfTheLastSecond) {
  RecentClients clients;
  EXPECT_EQ(clients.Count(At(0)), 0u);
  clients.Add("a", At(0));
  clients.Add("b", At(500));
  clients.Add("", At(600));
  EXPECT_EQ(clients.Count(At(600)), 3u);
  clients.Add("a", At(900));
  EXPECT_EQ(clients.Count(At(1499)), 3u);
  EXPECT_EQ(clients.Count(At(1500)), 2u);
  EXPECT_EQ(clients.Count(At(1600)), 1u);
  clients.Add("b", At(1899));
  EXPECT_EQ(clients.Count(At(1900)), 1u);
}

TEST(RecentClientsTest, InventedNamesAreFew) {
  RecentClients clients;
  for (int i = 0; i < 100; ++i) clients.Add(std::to_string(i), At(i));
  EXPECT_EQ(clients.Count(At(100)), RecentClients::kMost);
  // The first ones have given up their places.
  for (int i = 0; i < 100; ++i) clients.Add(std::to_string(i), At(1003 + i));
  EXPECT_EQ(clients.Count(At(1007)), RecentClients::kMost);
  EXPECT_EQ(clients.Count(At(3000)), 0u);
}

}  // namespace
}  // namespace beamline::recent_clients_test
