#include "server/calls/message_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace beamline::message_budget_test {
namespace {

using std::chrono::milliseconds;

struct Entry final : MessageBudget::Entry {
  void OnPlace() override { placed = true; }
  void OnLate(MessageBudget::Late why) override { late = static_cast<int>(why); }
  bool is(MessageBudget::Late why) const { return late == static_cast<int>(why); }
  bool is_late() const { return late >= 0; }
  std::atomic<bool> placed{false};
  std::atomic<int> late{-1};
};

class MessageBudgetTest : public testing::Test {
 protected:
  // 64 places.
  void Make(milliseconds time = milliseconds(600000)) {
    budget_.emplace(MessageBudget::Options{.bytes = 9600, .message_bytes = 100, .time = time},
                    stats_);
  }
  // The same, for what connections keep: 9,600 bytes, which `received_` counts.
  void MakeWithBytes() {
    budget_.emplace(
        MessageBudget::Options{.bytes = 9600,
                               .message_bytes = 100,
                               .time = milliseconds(600000),
                               .received =
                                   [this](const std::string& connection) {
                                     std::unique_lock lock(mutex_);
                                     ++num_looks_;
                                     if (connection == held_) {
                                       is_held_ = true;
                                       if (!changed_.wait_for(lock, std::chrono::seconds(20),
                                                              [this] { return held_.empty(); })) {
                                         held_.clear();
                                       }
                                     }
                                     return std::optional<int64_t>(received_[connection]);
                                   }},
        stats_);
  }
  void Receive(const std::string& connection, int64_t bytes) {
    std::lock_guard lock(mutex_);
    received_[connection] += bytes;
  }
  Entry& EnterStream(const std::string& client, const std::string& connection) {
    entries_.emplace_back();
    budget_->EnterStream(entries_.back(), client, connection);
    return entries_.back();
  }
  template <typename Condition>
  static bool Eventually(const Condition& condition) {
    const auto until = Clock::now() + std::chrono::seconds(20);
    while (!condition() && Clock::now() < until) std::this_thread::sleep_for(milliseconds(5));
    return condition();
  }
  // Whether it has a place at once.
  bool Enter(const std::string& client, const std::string& connection) {
    entries_.emplace_back();
    return budget_->Enter(entries_.back(), client, connection);
  }
  // Enters until one waits. Returns how many have a place.
  int Fill(const std::string& client, const std::string& connection) {
    int count = 0;
    while (Enter(client, connection)) ++count;
    return count;
  }
  void TearDown() override {
    for (Entry& entry : entries_) budget_->Leave(entry, 0);
    EXPECT_EQ(stats_.reading, 0);
    EXPECT_EQ(stats_.streams, 0);
    EXPECT_EQ(stats_.waiting, 0);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // All of this is guarded by mutex_.
  std::map<std::string, int64_t> received_;
  int num_looks_ = 0;
  std::string held_;  // a connection whose looks wait
  bool is_held_ = false;

  MessageStats stats_;
  std::optional<MessageBudget> budget_;
  std::deque<Entry> entries_;
};

TEST_F(MessageBudgetTest, AClientHasHalfAndAConnectionLeavesSomeToItsOthers) {
  Make();
  EXPECT_EQ(budget_->num_places(), 64);
  EXPECT_EQ(Fill("a", "a1"), 30);
  EXPECT_EQ(Fill("a", "a2"), 2);
  EXPECT_EQ(Fill("a", "a3"), 1);   // half of all is taken, and it had none
  EXPECT_EQ(Fill("b", "b1"), 28);  // the last sixteenth is for clients that have few
  EXPECT_TRUE(Enter("c", "c1"));
  EXPECT_EQ(stats_.reading, 62);
  EXPECT_EQ(stats_.waiting, 4);
}

// Calls of many connections that say nothing hold up none of another of the same client.
TEST_F(MessageBudgetTest, EachConnectionHasAPlaceWhereClientsHaveMany) {
  Make();
  for (int i = 0; i < 300; ++i) EXPECT_TRUE(Enter("a", std::to_string(i)));
  EXPECT_FALSE(Enter("a", "7"));
  EXPECT_TRUE(Enter("a", "normal"));
  EXPECT_TRUE(Enter("b", "other"));
  int count = 0;
  while (Enter("a", "more" + std::to_string(count))) ++count;
  EXPECT_EQ(count, 32 + 15 * 64 - 301);  // the last sixteenth of these too
  EXPECT_TRUE(Enter("c", "another"));
}

TEST_F(MessageBudgetTest, WhoWaitsGetsThePlaceOfOneThatLeaves) {
  Make();
  EXPECT_EQ(Fill("a", "a1"), 30);
  Entry& waiting = entries_.back();
  EXPECT_FALSE(Enter("a", "a1"));
  Entry& next = entries_.back();
  EXPECT_FALSE(Enter("a", "a1"));
  Entry& last = entries_.back();
  EXPECT_TRUE(budget_->Leave(entries_[3], 10));
  EXPECT_FALSE(budget_->Leave(entries_[3], 0));  // once
  EXPECT_TRUE(waiting.placed);
  EXPECT_FALSE(next.placed);
  EXPECT_FALSE(budget_->Withdraw(waiting));  // it is being read
  EXPECT_TRUE(budget_->Withdraw(next));
  EXPECT_TRUE(budget_->Leave(waiting, 10));
  EXPECT_TRUE(last.placed);
  EXPECT_FALSE(next.placed);
}

TEST_F(MessageBudgetTest, WhatIsNotWholeInTimeIsEnded) {
  Make(milliseconds(200));
  const int placed = Fill("a", "a1");
  Entry& waiting = entries_.back();
  const auto until = Clock::now() + std::chrono::seconds(20);
  while (stats_.late < static_cast<uint64_t>(placed) + 1 && Clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_TRUE(entries_.front().is(MessageBudget::Late::kNotWhole));
  EXPECT_TRUE(waiting.is_late());
  EXPECT_FALSE(budget_->Leave(entries_.front(), 0));
  EXPECT_TRUE(Enter("a", "a1"));
  EXPECT_TRUE(budget_->Leave(entries_.back(), 10));
}

TEST_F(MessageBudgetTest, StreamsThatWaitForTheirNextMessageTakeNoPlaceAndHaveTime) {
  Make(milliseconds(50));
  for (int i = 0; i < 1000; ++i) EnterStream("a", "a1");
  EXPECT_EQ(stats_.streams, 1000);
  EXPECT_EQ(Fill("a", "a1"), 30);
  EXPECT_TRUE(Eventually([this] { return stats_.late >= 31; }));
  EXPECT_EQ(stats_.streams, 1000);
}

TEST_F(MessageBudgetTest, ReadsEndWhereAClientKeepsTooMuch) {
  MakeWithBytes();
  Entry& other = EnterStream("b", "b1");
  Entry& small = EnterStream("a", "a2");
  std::vector<Entry*> large;
  for (int i = 0; i < 10; ++i) large.push_back(&EnterStream("a", "a1"));
  Receive("b1", 4000);
  Receive("a2", 10);
  Receive("a1", 4700);
  EXPECT_TRUE(Eventually([this] { return stats_.bytes == 8710; }));
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_EQ(stats_.late, 0);
  Receive("a1", 200);  // more than half of all
  EXPECT_TRUE(Eventually([this] { return stats_.late == 10; }));
  for (Entry* const entry : large) {
    EXPECT_TRUE(Eventually([&] { return entry->is(MessageBudget::Late::kTooMuch); }));
  }
  EXPECT_TRUE(Eventually([this] { return stats_.bytes == 4010; }));
  EXPECT_FALSE(small.is_late());
  EXPECT_FALSE(other.is_late());
}

TEST_F(MessageBudgetTest, ReadsOfOneRequestEndThereToo) {
  MakeWithBytes();
  EXPECT_TRUE(Enter("a", "a1"));
  Entry& normal = EnterStream("a", "a2");
  Receive("a1", 5000);  // of a message that says it is larger than any may be
  EXPECT_TRUE(Eventually([this] { return entries_.front().is(MessageBudget::Late::kTooMuch); }));
  EXPECT_FALSE(normal.is_late());
}

// Messages that are whole are not kept, whatever they were together.
TEST_F(MessageBudgetTest, WholeMessagesCountNot) {
  MakeWithBytes();
  EnterStream("a", "a1");  // idle all the time
  Entry& busy = EnterStream("a", "a1");
  for (int i = 0; i < 200; ++i) {
    Receive("a1", 1000 + 5 + 9);
    EXPECT_TRUE(budget_->Leave(busy, 1000));
    budget_->EnterStream(busy, "a", "a1");
    std::this_thread::sleep_for(milliseconds(2));
  }
  EXPECT_EQ(stats_.late, 0);
  EXPECT_TRUE(Eventually([this] { return stats_.bytes == 0; }));
}

TEST_F(MessageBudgetTest, CallsDoNotWaitWhileConnectionsAreLookedAt) {
  MakeWithBytes();
  EnterStream("a", "a1");
  std::unique_lock lock(mutex_);
  held_ = "a1";
  lock.unlock();
  ASSERT_TRUE(Eventually([this] {
    std::lock_guard guard(mutex_);
    return is_held_;
  }));
  EXPECT_TRUE(Enter("b", "b1"));
  lock.lock();
  EXPECT_EQ(held_, "a1") << "the look ended first";
  held_.clear();
  lock.unlock();
  changed_.notify_all();
}

TEST_F(MessageBudgetTest, ManyConnectionsThatBringNothingAreLookedAtRarely) {
  constexpr int kConnections = 5000;
  MakeWithBytes();
  for (int i = 0; i < kConnections; ++i) EnterStream("a", absl::StrCat("a", i));
  const auto looks = [this] {
    std::lock_guard lock(mutex_);
    return num_looks_;
  };
  // Each is new, then known to be quiet.
  ASSERT_TRUE(Eventually([&] { return looks() >= 3 * kConnections; }));
  const int before = looks();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LE(looks() - before, 4 * kConnections);  // 10 without a pause
  // What comes is seen none the less.
  Receive("a7", 9000);
  EXPECT_TRUE(Eventually([this] { return entries_[7].is(MessageBudget::Late::kTooMuch); }));
}

TEST_F(MessageBudgetTest, ManyThreadsComeAndGo) {
  Make();
  std::atomic<int> inside{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, name = std::to_string(t % 2)] {
      for (int i = 0; i < 200; ++i) {
        std::vector<std::unique_ptr<Entry>> own;
        for (int k = 0; k < 16; ++k) {
          own.push_back(std::make_unique<Entry>());
          if (budget_->Enter(*own.back(), name, name)) own.back()->placed = true;
        }
        for (auto& entry : own) {
          if (!budget_->Withdraw(*entry)) {
            while (!entry->placed) std::this_thread::yield();
            const int now = ++inside;
            for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
            }
            --inside;
            EXPECT_TRUE(budget_->Leave(*entry, 1));
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 64);
}

// Where messages are large there is room for some all the same.
TEST(MessageBudget, HasPlacesWhateverMessagesMayBe) {
  MessageStats stats;
  const MessageBudget budget({.bytes = 1 << 20, .message_bytes = 1 << 30}, stats);
  EXPECT_EQ(budget.num_places(), 32);
}

}  // namespace
}  // namespace beamline::message_budget_test
