#include "server/guard/connection_flood.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/guard/answered_calls.h"
#include "tests/test_seed.h"

namespace beamline::connection_flood_test {
namespace {

using Excess = ConnectionFlood::Excess;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

class ConnectionFloodTest : public testing::Test {
 protected:
  std::shared_ptr<ConnectionFlood> Connect() { return std::make_shared<ConnectionFlood>(peer_); }
  // So many calls a second over these connections, of which this share is taken back and the others
  // are answered. How many were sent before one was too many; -1: none was.
  int CallsUntilTheEnd(const std::vector<std::shared_ptr<ConnectionFlood>>& connections,
                       int per_second, double taken_back, seconds time) {
    std::uniform_real_distribution<double> draw(0, 1);
    const int count = per_second * static_cast<int>(time.count());
    for (int i = 0; i < count; ++i, now_ += microseconds(1000000 / per_second)) {
      ConnectionFlood& flood = *connections[random_() % connections.size()];
      if (draw(random_) >= taken_back) {
        flood.AddAnswer(now_);
      } else if (flood.AddReset(now_) != Excess::kNone) {
        return i;
      }
    }
    return -1;
  }
  int ResetsUntilTheEnd(ConnectionFlood& flood) {
    int count = 0;
    while (count < 100000 && flood.AddReset(now_) == Excess::kNone) ++count;
    return count;
  }

  const std::shared_ptr<PeerFlood> peer_ = std::make_shared<PeerFlood>();
  ConnectionFlood::TimePoint now_ = ConnectionFlood::TimePoint() + std::chrono::hours(1);
  std::mt19937 random_{TestSeed()};
};

TEST_F(ConnectionFloodTest, AnsweredTrafficIsNoFloodWhateverShareIsTakenBack) {
  for (const double share : {0.1, 0.5, 0.9}) {
    for (const int per_second : {100, 1000, 20000}) {
      for (const size_t num_connections : {1, 8}) {
        std::vector<std::shared_ptr<ConnectionFlood>> all;
        for (size_t i = 0; i < num_connections; ++i) all.push_back(Connect());
        EXPECT_EQ(CallsUntilTheEnd(all, per_second, share, seconds(20)), -1)
            << share << " of " << per_second << " over " << num_connections;
      }
    }
  }
}

// As a gateway's users leave when the server has a pause, or a step takes long.
TEST_F(ConnectionFloodTest, APauseOfTheAnswersIsNoFlood) {
  const std::vector one = {Connect()};
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(CallsUntilTheEnd(one, 5000, 0.2, seconds(4)), -1);
    ASSERT_EQ(CallsUntilTheEnd(one, 1000, 1.0, seconds(1)), -1);
  }
}

TEST_F(ConnectionFloodTest, FewAnswersBuyLittle) {
  const std::vector none = {Connect()};
  const int most = CallsUntilTheEnd(none, 1000, 1.0, seconds(60));
  EXPECT_GE(most, 500);
  EXPECT_LE(most, 650);
  // One a second, beside 250 that are taken back: ten more than without.
  const std::vector one = {Connect()};
  int num_seconds = 0;
  while (num_seconds < 60 && CallsUntilTheEnd(one, 250, 1.0, seconds(1)) == -1) {
    one[0]->AddAnswer(now_);
    ++num_seconds;
  }
  EXPECT_NEAR(num_seconds, 500 / (250 - 200 - 10), 2);
  EXPECT_GT(CallsUntilTheEnd({Connect()}, 1000, 0.99, seconds(60)), 0);
}

TEST_F(ConnectionFloodTest, NoMoreIsSavedThanTheMost) {
  const auto flood = Connect();
  for (int i = 0; i < 100000; ++i) flood->AddAnswer(now_);
  EXPECT_EQ(ResetsUntilTheEnd(*flood), 2500);
}

TEST_F(ConnectionFloodTest, WhatIsSavedIsGoneInAMinuteOrTwo) {
  const auto flood = Connect();
  for (int i = 0; i < 1000; ++i) flood->AddAnswer(now_);
  now_ += seconds(10);
  EXPECT_NEAR(ResetsUntilTheEnd(*flood), 500 + 2000 / 2.718, 1);
  const auto later = Connect();
  for (int i = 0; i < 1000; ++i) later->AddAnswer(now_);
  now_ += seconds(120);
  EXPECT_EQ(ResetsUntilTheEnd(*later), 500);
}

// An attacker that has answers on many connections, and floods on all of them at once.
TEST_F(ConnectionFloodTest, AnAddressSavesNoMoreThanItsMost) {
  std::vector<std::shared_ptr<ConnectionFlood>> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(Connect());
    for (int j = 0; j < 200; ++j) all.back()->AddAnswer(now_);
  }
  int count = 0, ended = 0;
  for (const auto& flood : all) {
    const int resets = ResetsUntilTheEnd(*flood);
    count += resets;
    ended += resets < 2500 ? 1 : 0;
  }
  EXPECT_EQ(ended, 96);
  EXPECT_EQ(count, 8000 + 2000 + 96 * 8);
}

// Behind one address lies a client with traffic, and one that floods over fresh connections.
TEST_F(ConnectionFloodTest, OthersAnswersPayForNoFlood) {
  const auto normal = Connect();
  int num_ended = 0;
  for (int i = 0; i < 1000; ++i, now_ += milliseconds(10)) {
    for (int j = 0; j < 50; ++j) normal->AddAnswer(now_);
    for (int j = 0; j < 50; ++j) ASSERT_EQ(normal->AddReset(now_), Excess::kNone) << i;
    const auto fresh = Connect();
    int resets = 0;
    while (resets < 480 && fresh->AddReset(now_) == Excess::kNone) ++resets;
    num_ended += resets < 480 ? 1 : 0;
  }
  EXPECT_GE(num_ended, 970);
}

TEST_F(ConnectionFloodTest, ASlowClientBesideAFloodMayTakeBackNineOfTen) {
  const auto normal = Connect();
  for (int i = 0; i < 300; ++i) {
    while (peer_->AddReset(now_)) continue;
    normal->AddAnswer(now_);
    for (int j = 0; j < 9; ++j, now_ += milliseconds(100)) {
      ASSERT_EQ(normal->AddReset(now_), Excess::kNone) << i;
    }
  }
}

TEST_F(ConnectionFloodTest, AnswersAreOfTheConnectionOfTheirPeer) {
  const auto one = Connect(), other = Connect();
  NoteFlood("ipv4:10.0.0.7:1", one);
  NoteFlood("ipv4:10.0.0.7:2", other);
  now_ = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) CountAnswered("ipv4:10.0.0.7:1");
  CountAnswered("ipv4:10.0.0.7:3");  // of another process's, or gone
  EXPECT_NEAR(ResetsUntilTheEnd(*one), 2500, 30);
  EXPECT_EQ(ResetsUntilTheEnd(*other), 500);
  // Another connection has the port.
  const auto next = Connect();
  NoteFlood("ipv4:10.0.0.7:1", next);
  CountAnswered("ipv4:10.0.0.7:1");
  EXPECT_EQ(next->AddReset(now_), Excess::kNone);
}

TEST_F(ConnectionFloodTest, ConnectionsThatAreOverAreForgotten) {
  for (int i = 0; i < 10000; ++i) {
    const auto flood = Connect();
    NoteFlood("ipv4:10.0.1.7:" + std::to_string(i), flood);
    const std::weak_ptr<ConnectionFlood> kept = flood;
    EXPECT_EQ(kept.use_count(), 1);
  }
  CountAnswered("ipv4:10.0.1.7:9999");
}

}  // namespace
}  // namespace beamline::connection_flood_test
