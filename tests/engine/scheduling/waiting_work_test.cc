// What has its turn before a request, compared with an order that is played through.
#include "engine/scheduling/waiting_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
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

int64_t Waiting(const WaitingWork& work, const std::string& client, int32_t priority = 0) {
  return work.Ahead({.priority = priority, .client = client}).waiting;
}

TEST(WaitingWorkTest, OfOneClientAllThatWaitsGoesBefore) {
  WaitingWork work;
  EXPECT_EQ(Waiting(work, "a"), 0);
  const int64_t first = work.Add(Of("a", 10));
  work.Add(Of("a", 20));
  EXPECT_EQ(Waiting(work, "a"), 30);
  EXPECT_EQ(work.Ahead({.client = "a"}).to_come, 0);
  work.Remove(Of("a", 10), first);
  EXPECT_EQ(Waiting(work, "a"), 20);
}

TEST(WaitingWorkTest, AnotherClientGoesBeforeWithNoMoreThanItsShare) {
  WaitingWork work;
  for (int i = 0; i < 1000; ++i) work.Add(Of("busy", 10));
  EXPECT_EQ(Waiting(work, "quiet"), 10);
  work.Add(Of("quiet", 10));
  EXPECT_EQ(Waiting(work, "quiet"), 10 + 20);
  EXPECT_EQ(Waiting(work, "busy"), 10000 + 10);
}

// Others' next requests have their turn before it, though they come later.
TEST(WaitingWorkTest, OthersMayComeAndGoBeforeAClientsSecondRequest) {
  WaitingWork work;
  for (int i = 0; i < 9; ++i) work.Add(Of(std::to_string(i), 10));
  const int64_t tag = work.Add(Of("a", 100));
  EXPECT_EQ(work.Ahead({.client = "new"}).to_come, 0);
  EXPECT_EQ(Waiting(work, "a"), 9 * 10 + 100);
  // Each up to where this one's turn is, in whole usual requests: (9 * 10 + 100) / 10.
  EXPECT_EQ(work.Ahead({.client = "a"}).to_come, 9 * 5 * 19);
  EXPECT_EQ(work.Ahead({.client = "a", .most_each = 4}).to_come, 9 * 23 * 4);
  // What a client has had counts when nothing of it waits any more.
  work.Begin(Of("a", 100));
  work.BeginTurn(tag);
  EXPECT_EQ(Waiting(work, "a"), 9 * 10);
  EXPECT_EQ(work.Ahead({.client = "a"}).to_come, 9 * 90);
  work.Finish(Of("a", 100));
  EXPECT_EQ(work.Ahead({.client = "a"}).to_come, 9 * 90);
}

TEST(WaitingWorkTest, OfALongRequestOnlyAPartIsBefore) {
  WaitingWork work;
  work.Add(Of("long", 1000000));
  EXPECT_EQ(Waiting(work, "a"), 1000000);
  EXPECT_EQ(work.Ahead({.client = "a", .most_each = 50}).waiting, 50);
  EXPECT_EQ(work.Ahead({.client = "long", .most_each = 50}).waiting, 1000000);
}

// Played through: requests of a client's that cost the same are told exactly.
TEST(WaitingWorkTest, WhatHasAnEarlierTurnIsBefore) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 50; ++round) {
    WaitingWork work;
    std::vector<std::pair<int64_t, Waiter>> waiting;  // by tag
    for (int i = 0; i < 200; ++i) {
      const uint64_t client = random() % 12;
      if (random() % 3 != 0 || waiting.empty()) {
        const Waiter waiter = Of(std::to_string(client), 1 + 7 * static_cast<int64_t>(client));
        waiting.emplace_back(work.Add(waiter), waiter);
      } else {  // the next turn
        const auto next = std::ranges::min_element(
            waiting, [](const auto& a, const auto& b) { return a.first < b.first; });
        work.Begin(next->second);
        work.BeginTurn(next->first);
        work.Finish(next->second);
        waiting.erase(next);
      }
      const std::string asks = std::to_string(random() % 13);
      const int64_t tag = WaitingWork(work).Add(Of(asks, 1));
      int64_t before = 0;
      for (const auto& [turn, waiter] : waiting) before += turn <= tag ? waiter.cost : 0;
      ASSERT_EQ(Waiting(work, asks), before) << round << ", " << i;
    }
  }
}

TEST(WaitingWorkTest, OfManyClientsABoundIsTold) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    WaitingWork work;
    const auto clients = WaitingWork::kMostExact + 1 + random() % 50;
    const auto cost = static_cast<int64_t>(1 + random() % 100);
    int64_t sum = 0, exact = 0;
    const int64_t own = static_cast<int64_t>(random() % 4) * cost;
    for (size_t c = 0; c < clients; ++c) {
      const int64_t of_it = c == 0 ? own : static_cast<int64_t>(random() % 5) * cost;
      for (int64_t i = 0; i < of_it; i += cost) work.Add(Of(std::to_string(c), cost));
      sum += of_it;
      exact += c == 0 ? own : std::min(of_it, own + cost);
    }
    EXPECT_GE(Waiting(work, "0"), exact);
    EXPECT_LE(Waiting(work, "0"), sum);
    EXPECT_GE(work.Ahead({.client = "0"}).to_come, 0);
  }
}

TEST(WaitingWorkTest, HigherPrioritiesGoBeforeAndLowerOnesBehind) {
  WaitingWork work;
  work.Add(Of("a", 10, /*priority=*/3));
  work.Add(Of("b", 20, /*priority=*/1));
  work.Add(Of("b", 40, /*priority=*/-1));
  EXPECT_EQ(Waiting(work, "c", 4), 0);
  EXPECT_EQ(Waiting(work, "c", 3), 10);
  EXPECT_EQ(Waiting(work, "c", 2), 10);
  EXPECT_EQ(Waiting(work, "c", 0), 30);
  EXPECT_EQ(Waiting(work, "c", -2), 70);
}

// Priorities count as far as they last: what is served meanwhile.
TEST(WaitingWorkTest, HigherPrioritiesGoBeforeForATime) {
  WaitingWork work;
  for (int i = 0; i < 1000; ++i) work.Add(Of("busy", 10, /*priority=*/5));
  const auto ahead = [&](std::optional<double> cost_per_second, int64_t width = 0) {
    return work
        .Ahead({.client = "quiet",
                .cost_per_second = cost_per_second,
                .width = width,
                .now = kStart + std::chrono::hours(1)})
        .waiting;
  };
  EXPECT_EQ(ahead(std::nullopt), 10000);
  EXPECT_EQ(ahead(1000), 10 + 500);  // half a second of them
  EXPECT_EQ(ahead(1e9), 10000);
  EXPECT_EQ(ahead(1000, /*width=*/1), 10 + 500);
  EXPECT_EQ(ahead(1000, /*width=*/2), 0);  // begins beside what runs
  // Of the smallest costs and of extreme priorities.
  work.Add(Of("low", 1, std::numeric_limits<int32_t>::min()));
  work.Add(Of("high", 1, std::numeric_limits<int32_t>::max()));
  EXPECT_GE(work.Ahead({.client = "low", .most_each = 1, .cost_per_second = 1e-9}).waiting, 1);
  work.Add(Of("low", 1000));
  EXPECT_GE(work.Ahead({.client = "low", .most_each = 0, .cost_per_second = 1}).waiting, 1000);
}

TEST(WaitingWorkTest, TellsWhatComesInASecond) {
  WaitingWork work;
  EXPECT_EQ(work.arriving(kStart), 0);
  Waiter waiter = Of("a", 10);
  for (int i = 0; i < 5000; ++i) {
    waiter.arrival += std::chrono::milliseconds(2);
    work.Add(waiter);
  }
  EXPECT_NEAR(work.arriving(waiter.arrival), 5000, 100);
  EXPECT_NEAR(work.arriving(waiter.arrival + std::chrono::seconds(1)), 5000 / std::exp(1), 100);
}

TEST(WaitingWorkTest, WhatComesAndGoesLeavesNothing) {
  std::mt19937_64 random(TestSeed());
  WaitingWork work;
  std::vector<std::pair<Waiter, int64_t>> waiting;  // with their tags
  std::vector<Waiter> begun;
  int64_t tokens = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 || waiting.empty()) {
      Waiter waiter = {.priority = static_cast<int32_t>(random() % 5) - 2,
                       .client = std::to_string(random() % 7),
                       .cost = static_cast<int64_t>(random() % 100),
                       .input_tokens = static_cast<int64_t>(random() % 50),
                       .arrival = kStart + std::chrono::milliseconds(random() % 1000)};
      const int64_t tag = work.Add(waiter);
      tokens += waiter.input_tokens;
      waiting.emplace_back(std::move(waiter), tag);
    } else {
      std::swap(waiting[random() % waiting.size()], waiting.back());
      const auto [waiter, tag] = waiting.back();
      if (random() % 2 == 0) {
        work.Begin(waiter);
        work.BeginTurn(tag);
        begun.push_back(waiter);
      } else {
        work.Remove(waiter, tag);
      }
      tokens -= waiter.input_tokens;
      waiting.pop_back();
    }
    if (random() % 4 == 0 && !begun.empty()) {
      work.Finish(begun.back());
      begun.pop_back();
    }
    ASSERT_EQ(work.input_tokens(), tokens);
    ASSERT_EQ(work.oldest().has_value(), !waiting.empty());
    int64_t cost = 0;
    Clock::time_point oldest = Clock::time_point::max();
    for (const auto& [waiter, tag] : waiting) {
      cost += waiter.cost;
      oldest = std::min(oldest, waiter.arrival);
    }
    ASSERT_EQ(Waiting(work, "x", -3), cost);
    ASSERT_EQ(work.oldest().value_or(oldest), oldest);
  }
  for (const auto& [waiter, tag] : waiting) work.Remove(waiter, tag);
  for (const Waiter& waiter : begun) work.Finish(waiter);
  EXPECT_TRUE(work.empty());
  EXPECT_EQ(work.input_tokens(), 0);
  EXPECT_EQ(Waiting(work, "x", -3), 0);
  EXPECT_EQ(work.num_clients(), 0u);
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
  const auto waiter = [](int64_t input_tokens, const char* client = "a") {
    return Waiter{.client = client, .cost = 1, .input_tokens = input_tokens, .arrival = kStart};
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
  EXPECT_FALSE(two->Describe(waiter(34), 100).has_value());
  auto three = WaitingCount::Enter(counter, 9);
  EXPECT_EQ(three->Describe(waiter(1), 100), 95);  // the last sixteenth is for others
  auto four = WaitingCount::Enter(counter, 9);
  EXPECT_FALSE(four->Describe(waiter(6, "b"), 100).has_value());
  auto five = WaitingCount::Enter(counter, 9);
  EXPECT_EQ(five->Describe(waiter(1, "c"), 100), 101);
  WaitingCount moved = *std::move(one);
  EXPECT_EQ(tokens(), 100);
  moved.Leave();
  EXPECT_EQ(tokens(), 40);
  four->Leave();
  five->Leave();
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
