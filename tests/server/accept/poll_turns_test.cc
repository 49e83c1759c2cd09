#include "server/accept/poll_turns.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/epoll.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace beamline::poll_turns_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kMostTries = 2000;  // of what other programs may disturb
// Of what comes in the end: pollers rest for a second or so where others take their cores.
constexpr int kManyTries = 100'000;
constexpr int kForEver = -1;

// What stands for epoll_wait: looks find nothing until so many have been made, and who sleeps finds
// something after a while. Of the test's one thread that polls.
std::atomic<int> looks_until_found, num_looks, num_sleeps;
std::atomic<int64_t> sleep_us;

int Wait(int /*fd*/, epoll_event* /*events*/, int /*most*/, int timeout_ms) {
  if (timeout_ms == 0) return ++num_looks >= looks_until_found ? 1 : 0;
  ++num_sleeps;
  std::this_thread::sleep_for(microseconds(sleep_us));
  return 1;
}

int Poll() {
  num_looks = 0;
  num_sleeps = 0;
  return WaitForEvents(Wait, 0, nullptr, 1, kForEver);
}

// Polls as calls do that come one by one. Whether that was soon seen as such.
bool BecomeLone(int most_tries = kManyTries) {
  for (int i = 0; i < most_tries; ++i) {
    Poll();
    if (num_looks > 0) return true;
  }
  return false;
}

void BePoller() { pthread_setname_np(pthread_self(), "nexting_thread"); }

class PollTurnsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
    EndLonePolling();
    SetPollSpin(milliseconds(1));
    looks_until_found = 3;
    sleep_us = 100;
  }
  void TearDown() override {
    EndLonePolling();
    SetPollSpin(microseconds(0));
  }
};

// Runs it on a thread that is a poller's.
template <typename Work>
void AsPoller(const Work& work) {
  std::thread([&] {
    BePoller();
    work();
  }).join();
}

TEST_F(PollTurnsTest, LoneCallsAreLookedForBeforeItSleeps) {
  AsPoller([] {
    const PollTurn turn(/*may_wait=*/true);
    ASSERT_TRUE(BecomeLone());
    looks_until_found = 1;
    for (int i = 0; i < kManyTries; ++i) {
      if (Poll() == 1 && num_sleeps == 0 && num_looks == 1) return;
    }
    FAIL() << "it never finds what is there without sleeping";
  });
}

TEST_F(PollTurnsTest, NobodyElseLooks) {
  const PollTurn turn(/*may_wait=*/true);  // this thread is no poller
  EXPECT_FALSE(BecomeLone(kMostTries));
}

TEST_F(PollTurnsTest, NotWithoutATurn) {
  AsPoller([] { EXPECT_FALSE(BecomeLone(kMostTries)); });
}

TEST_F(PollTurnsTest, NotWhereItIsOff) {
  SetPollSpin(microseconds(0));
  AsPoller([] {
    const PollTurn turn(/*may_wait=*/true);
    EXPECT_FALSE(BecomeLone(kMostTries));
  });
}

TEST_F(PollTurnsTest, NotBehindACallThatCameLate) {
  sleep_us = 1500;
  AsPoller([] {
    const PollTurn turn(/*may_wait=*/true);
    for (int i = 0; i < 100; ++i) {
      Poll();
      EXPECT_EQ(num_looks, 0);
    }
  });
}

TEST_F(PollTurnsTest, WhatIsNotThereIsSleptForInTime) {
  AsPoller([] {
    const PollTurn turn(/*may_wait=*/true);
    ASSERT_TRUE(BecomeLone());
    looks_until_found = 1 << 30;
    for (int i = 0; i < kMostTries; ++i) {
      EXPECT_EQ(Poll(), 1);
      EXPECT_EQ(num_sleeps, 1);
    }
  });
}

// A poller of lone calls, and one that comes beside it.
TEST_F(PollTurnsTest, AnotherWaitsUntilCallsAreLoneNoMore) {
  looks_until_found = 1 << 30;  // nothing is there at once
  std::atomic<bool> ends = false;
  std::thread first([&] {
    BePoller();
    while (!ends) {
      const PollTurn turn(/*may_wait=*/false);
      Poll();
    }
  });
  bool has_waited = false;
  for (int i = 0; i < kMostTries && !has_waited; ++i) {
    std::this_thread::sleep_for(milliseconds(5));
    std::atomic<bool> asks = false;
    std::thread second([&] {
      BePoller();
      const PollTurn turn(/*may_wait=*/true);
      asks = true;
    });
    std::this_thread::sleep_for(milliseconds(20));
    has_waited = !asks;
    EndLonePolling();
    second.join();
  }
  EXPECT_TRUE(has_waited);
  ends = true;
  first.join();
}

TEST_F(PollTurnsTest, OneThatKeepsAnswersDoesNotWait) {
  std::atomic<bool> ends = false;
  std::thread first([&] {
    BePoller();
    while (!ends) {
      const PollTurn turn(/*may_wait=*/false);
      Poll();
    }
  });
  AsPoller([] {
    for (int i = 0; i < kMostTries; ++i) const PollTurn turn(/*may_wait=*/false);
  });
  ends = true;
  first.join();
}

TEST_F(PollTurnsTest, WhoHasLeftIsMissed) {
  std::thread first([&] {
    BePoller();
    const PollTurn turn(/*may_wait=*/true);
    EXPECT_TRUE(BecomeLone());
  });
  first.join();
  AsPoller([] { const PollTurn turn(/*may_wait=*/true); });  // comes back
}

}  // namespace
}  // namespace beamline::poll_turns_test
