#include "server/calls/poller_rest.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>

namespace beamline::poller_rest_test {
namespace {

using std::chrono::milliseconds;

constexpr Clock::time_point kStart = Clock::time_point(std::chrono::hours(1));

TEST(PollerRestTest, OneRestsWhileRefusalsAreDense) {
  PollerRest rest;
  EXPECT_FALSE(rest.Begin(kStart));
  EXPECT_TRUE(rest.Begin(kStart + PollerRest::kDense));
  // Nobody else meanwhile, however many there are.
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(rest.Begin(kStart + PollerRest::kDense));
  rest.End();
  EXPECT_TRUE(rest.Begin(kStart + 2 * PollerRest::kDense));
  rest.End();
  EXPECT_FALSE(rest.Begin(kStart + 3 * PollerRest::kDense + milliseconds(1)));
}

// gRPC's pollers have a name of their own; who has another one may hold something.
TEST(PollerRestTest, OnlyPollersRest) {
  PollerRest rest;
  const auto time_of = [&](const char* name) {
    Clock::duration time{};
    std::thread([&] {
      pthread_setname_np(pthread_self(), name);
      const Clock::time_point begin = Clock::now();
      rest.AfterRefusal(kStart);
      rest.AfterRefusal(kStart);
      time = Clock::now() - begin;
    }).join();
    return time;
  };
  EXPECT_GE(time_of("nexting_thread"), PollerRest::kRest);
  // The other's refusals are not told, so that the next one is the first.
  PollerRest fresh;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "writer");
    for (int i = 0; i < 100; ++i) fresh.AfterRefusal(kStart);
  }).join();
  EXPECT_FALSE(fresh.Begin(kStart));
  EXPECT_TRUE(fresh.Begin(kStart));
}

}  // namespace
}  // namespace beamline::poller_rest_test
