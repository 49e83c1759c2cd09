#include "engine/scheduling/waiting_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/scheduling/fair_queue.h"

namespace beamline::waiting_order_test {
namespace {

using std::chrono::milliseconds;

// Places of `ranks` in the order in which they go.
std::vector<int> Sorted(const std::vector<WaitingRank>& ranks, Clock::time_point now) {
  WaitingOrder order(now, milliseconds(100));
  std::vector<int> places;
  for (const WaitingRank& rank : ranks) {
    order.Add(rank);
    places.push_back(static_cast<int>(places.size()));
  }
  std::stable_sort(places.begin(), places.end(),
                   [&](int a, int b) { return order(ranks[a], ranks[b]); });
  return places;
}

TEST(WaitingOrderTest, PriorityThenFairTagThenArrival) {
  const Clock::time_point start;
  const std::vector<WaitingRank> ranks = {
      {.priority = 0, .fair_tag = 7, .arrival = start},
      {.priority = 0, .fair_tag = 3, .arrival = start},
      {.priority = 2, .fair_tag = 9, .arrival = start},
      {.priority = 0, .fair_tag = 3, .arrival = start - milliseconds(1)}};
  EXPECT_EQ(Sorted(ranks, start), (std::vector<int>{2, 3, 1, 0}));
}

TEST(WaitingOrderTest, WaitingRaisesAPriorityToTheHighestAndNoFurther) {
  const Clock::time_point start;
  const Clock::time_point now = start + milliseconds(1000);
  // Old and low; new and high; old and high with a later tag.
  const std::vector<WaitingRank> ranks = {{.priority = -5, .fair_tag = 1, .arrival = start},
                                          {.priority = 5, .fair_tag = 2, .arrival = now},
                                          {.priority = 5, .fair_tag = 3, .arrival = start}};
  EXPECT_EQ(Sorted(ranks, now), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(Sorted(ranks, now - milliseconds(1)), (std::vector<int>{1, 2, 0}));
}

TEST(FairQueueTest, AQuietClientIsNotBehindABusyOnesQueue) {
  FairQueue queue;
  std::vector<int64_t> busy;
  for (int i = 0; i < 100; ++i) busy.push_back(queue.Enter("busy", 10));
  EXPECT_TRUE(std::is_sorted(busy.begin(), busy.end()));
  queue.Begin(busy[0]);
  queue.Begin(busy[1]);
  const int64_t quiet = queue.Enter("quiet", 10);
  EXPECT_LE(quiet, busy[1]);
  // Its second request shares with what the busy one has left.
  EXPECT_EQ(queue.Enter("quiet", 10), busy[2]);
}

TEST(FairQueueTest, IdlingSavesNothingUp) {
  FairQueue queue;
  queue.Enter("idle", 5);
  for (int i = 0; i < 50; ++i) queue.Begin(queue.Enter("busy", 10));
  const int64_t after = queue.Enter("idle", 5);
  EXPECT_EQ(after, 490);
}

TEST(FairQueueTest, ForgetsClientsThatOweNothing) {
  FairQueue queue;
  const int64_t owed = queue.Enter("kept", 1000000);
  for (int i = 0; i < 5000; ++i) {
    const std::string client = "client" + std::to_string(i);
    queue.Begin(queue.Enter(client, 1));
    queue.Leave(client);
    ASSERT_LE(queue.num_accounts(), FairQueue::kMostIdle + 1);
  }
  EXPECT_EQ(queue.Enter("kept", 1), owed + 1000000);
}

TEST(FairQueueTest, AnAccountOutlivesItsRequestsWhileOthersWait) {
  FairQueue queue;
  queue.Enter("waits", 10);
  const int64_t first = queue.Enter("returns", 500);
  queue.Begin(first);
  queue.Leave("returns");
  EXPECT_EQ(queue.Enter("returns", 1), first + 500);
}

TEST(FairQueueTest, WhatEndsWaitingIsGivenBack) {
  FairQueue queue;
  queue.Enter("a", 10);
  const int64_t second = queue.Enter("a", 20);
  EXPECT_EQ(queue.NextTag("a"), 30);
  queue.Refund("a", second, 20);
  queue.Leave("a");
  EXPECT_EQ(queue.NextTag("a"), 10);
  EXPECT_EQ(queue.NextTag("new"), 0);
  // Time that has passed a request is not given back.
  queue.Enter("b", 50);
  queue.Begin(queue.Enter("b", 1));
  EXPECT_EQ(queue.Enter("a", 5), 50);
  queue.Refund("a", 0, 10);
  queue.Leave("a");
  EXPECT_EQ(queue.NextTag("a"), 55);
}

TEST(FairQueueTest, TheRoomBeforeATagIsWhatOthersMayAskFor) {
  FairQueue queue;
  const auto room = [&](int64_t tag, int64_t each) {
    int64_t sum = 0;
    queue.VisitRoomBefore(tag, each, [&](const std::string&, int64_t of_one) { sum += of_one; });
    return sum;
  };
  EXPECT_EQ(room(100, 5), 0);
  queue.Enter("a", 30);
  queue.Enter("b", 100);
  EXPECT_EQ(room(100, 1), 70);
  EXPECT_EQ(room(100, 50), 2 * 50);
  queue.Begin(40);
  EXPECT_EQ(room(100, 1), 60);
  EXPECT_EQ(room(100, 30), 2 * 30);
  EXPECT_EQ(room(40, 5), 0);
}

TEST(FairQueueTest, NothingIsLeftWhenNoRequestIs) {
  FairQueue queue;
  for (int i = 0; i < 300; ++i) queue.Enter("client" + std::to_string(i), 7);
  EXPECT_EQ(queue.num_accounts(), 300u);
  for (int i = 0; i < 300; ++i) queue.Leave("client" + std::to_string(i));
  EXPECT_EQ(queue.num_accounts(), 0u);
  // A new busy period begins with equal clients.
  EXPECT_EQ(queue.Enter("client1", 7), queue.Enter("another", 7));
}

}  // namespace
}  // namespace beamline::waiting_order_test
