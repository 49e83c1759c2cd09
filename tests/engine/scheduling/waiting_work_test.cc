// What has its turn before a request, compared with an order that is played through.
#include "engine/scheduling/waiting_work.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/scheduling/waiting_count.h"
#include "tests/test_seed.h"

namespace beamline::waiting_work_test {
namespace {

constexpr Clock::time_point kStart;

Waiter Of(const std::string& client, int64_t cost, int32_t priority = 0) {
  return {
      .priority = priority, .client = client, .cost = cost, .input_tokens = 1, .arrival = kStart};
}

TEST(WaitingWorkTest, OfOneClientAllThatWaitsGoesBefore) {
  WaitingWork work;
  EXPECT_EQ(work.Ahead(0, "a", 10), 0);
  work.Add(Of("a", 10));
  work.Add(Of("a", 20));
  EXPECT_EQ(work.Ahead(0, "a", 5), 30);
  work.Remove(Of("a", 10));
  EXPECT_EQ(work.Ahead(0, "a", 5), 20);
}

TEST(WaitingWorkTest, AnotherClientGoesBeforeWithNoMoreThanItsShare) {
  WaitingWork work;
  for (int i = 0; i < 1000; ++i) work.Add(Of("busy", 10));
  EXPECT_EQ(work.Ahead(0, "quiet", 10), 10);
  work.Add(Of("quiet", 10));
  EXPECT_EQ(work.Ahead(0, "quiet", 10), 10 + 20);
  EXPECT_EQ(work.Ahead(0, "busy", 10), 10000 + 10);
}

TEST(WaitingWorkTest, OfManyClientsABoundIsTold) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    WaitingWork work;
    std::vector<int64_t> costs;
    const auto clients = WaitingWork::kMostExact + 1 + random() % 50;
    int64_t sum = 0;
    for (size_t c = 0; c < clients; ++c) {
      costs.push_back(static_cast<int64_t>(random() % 1000));
      work.Add(Of(std::to_string(c), costs.back()));
      sum += costs.back();
    }
    const auto cost = static_cast<int64_t>(random() % 2000);
    int64_t before = 0, exact = 0;
    if (round % 2 == 0) before = costs[0];
    for (size_t c = 0; c < clients; ++c) {
      exact += round % 2 == 0 && c == 0 ? before : std::min(costs[c], before + cost);
    }
    const int64_t told = work.Ahead(0, round % 2 == 0 ? "0" : "new", cost);
    EXPECT_GE(told, exact);
    EXPECT_LE(told, sum);
  }
}

TEST(WaitingWorkTest, HigherPrioritiesGoBeforeAndLowerOnesBehind) {
  WaitingWork work;
  work.Add(Of("a", 10, /*priority=*/3));
  work.Add(Of("b", 20, /*priority=*/1));
  work.Add(Of("b", 40, /*priority=*/-1));
  EXPECT_EQ(work.Ahead(4, "c", 100), 0);
  EXPECT_EQ(work.Ahead(3, "c", 100), 10);
  EXPECT_EQ(work.Ahead(2, "c", 100), 10);
  EXPECT_EQ(work.Ahead(0, "c", 100), 30);
  EXPECT_EQ(work.Ahead(-2, "c", 0), 70);
}

TEST(WaitingWorkTest, WhatComesAndGoesLeavesNothing) {
  std::mt19937_64 random(TestSeed());
  WaitingWork work;
  std::vector<Waiter> waiting;
  int64_t tokens = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 || waiting.empty()) {
      Waiter waiter = {.priority = static_cast<int32_t>(random() % 5) - 2,
                       .client = std::to_string(random() % 7),
                       .cost = static_cast<int64_t>(random() % 100),
                       .input_tokens = static_cast<int64_t>(random() % 50),
                       .arrival = kStart + std::chrono::milliseconds(random() % 1000)};
      work.Add(waiter);
      tokens += waiter.input_tokens;
      waiting.push_back(std::move(waiter));
    } else {
      std::swap(waiting[random() % waiting.size()], waiting.back());
      work.Remove(waiting.back());
      tokens -= waiting.back().input_tokens;
      waiting.pop_back();
    }
    ASSERT_EQ(work.input_tokens(), tokens);
    ASSERT_EQ(work.oldest().has_value(), !waiting.empty());
    int64_t cost = 0;
    Clock::time_point oldest = Clock::time_point::max();
    for (const Waiter& waiter : waiting) {
      cost += waiter.cost;
      oldest = std::min(oldest, waiter.arrival);
    }
    ASSERT_EQ(work.Ahead(-3, "x", 0), cost);
    ASSERT_EQ(work.oldest().value_or(oldest), oldest);
  }
  for (const Waiter& waiter : waiting) work.Remove(waiter);
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.input_tokens(), 0);
  EXPECT_EQ(work.Ahead(-3, "x", 0), 0);
}

TEST(WaitingPlacesTest, TheLastPlacesAreForClientsThatHaveFew) {
  WaitingCounter counter;
  constexpr int64_t kLimit = 64;
  std::vector<WaitingCount> waiting;
  const auto enter = [&](const std::string& client, int32_t priority = 0) {
    auto entered = WaitingCount::Enter(counter, kLimit, client);
    if (!entered.has_value()) return false;
    entered->Describe({priority, client, 10, 1, kStart}, 1 << 30);
    waiting.push_back(*std::move(entered));
    return true;
  };
  int taken = 0;
  while (enter("greedy")) ++taken;
  EXPECT_EQ(taken, kLimit - kLimit / 16);
  EXPECT_FALSE(enter("greedy", /*priority=*/5));
  EXPECT_TRUE(enter("one"));
  EXPECT_TRUE(enter("two"));
  EXPECT_TRUE(enter("one", /*priority=*/5));
  EXPECT_TRUE(enter("three"));
  EXPECT_FALSE(enter("four"));  // no place is left
  waiting.erase(waiting.begin());
  EXPECT_FALSE(enter("greedy"));
  EXPECT_TRUE(enter("four"));
  waiting.clear();
  EXPECT_EQ(counter.count(), 0);
  // Where places are few nobody is asked.
  EXPECT_TRUE(WaitingCount::Enter(counter, 1, "greedy").has_value());
}

TEST(WaitingTokensTest, TokensAreLimitedButForWhoWaitsAlone) {
  WaitingCounter counter;
  const auto tokens = [&] {
    return counter.Look([](const WaitingWork& w) { return w.input_tokens(); });
  };
  const auto waiter = [](int64_t input_tokens) {
    return Waiter{.client = "a", .cost = 1, .input_tokens = input_tokens, .arrival = kStart};
  };
  auto large = WaitingCount::Enter(counter, 9);
  EXPECT_FALSE(large->Describe(waiter(1000), 100).has_value());  // alone
  auto next = WaitingCount::Enter(counter, 9);
  EXPECT_EQ(next->Describe(waiter(5), 100), 1005);
  EXPECT_EQ(tokens(), 1000);
  next->Leave();
  large->Leave();
  EXPECT_EQ(tokens(), 0);
  auto one = WaitingCount::Enter(counter, 9);
  auto two = WaitingCount::Enter(counter, 9);
  EXPECT_FALSE(one->Describe(waiter(60), 100).has_value());
  EXPECT_FALSE(two->Describe(waiter(40), 100).has_value());
  auto three = WaitingCount::Enter(counter, 9);
  EXPECT_EQ(three->Describe(waiter(1), 100), 101);
  WaitingCount moved = *std::move(one);
  EXPECT_EQ(tokens(), 100);
  moved.Leave();
  EXPECT_EQ(tokens(), 40);
  EXPECT_FALSE(three->Describe(waiter(1), 100).has_value());
  three.reset();
  two.reset();
  EXPECT_EQ(tokens(), 0);
  EXPECT_EQ(counter.count(), 0);
  WaitingCount nowhere;
  EXPECT_FALSE(nowhere.Describe(waiter(1000), 0).has_value());
}

}  // namespace
}  // namespace beamline::waiting_work_test
