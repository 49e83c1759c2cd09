#include "server/calls/poller_rest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <thread>
#include <vector>

#include "server/accept/read_pacing.h"

namespace beamline::poller_rest_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::Not;
using Pace = PollerRest::Pace;

constexpr Clock::time_point kStart = Clock::time_point(std::chrono::hours(1));

TEST(PollerRestTest, OneRestsWhileRefusalsAreDense) {
  PollerRest rest;
  EXPECT_TRUE(rest.Begin());
  // Nobody else meanwhile, however many there are.
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(rest.Begin());
  rest.End();
  EXPECT_TRUE(rest.Begin());
}

// The paces that a server sees in some refusals which are so far apart.
std::vector<Pace> PacesOf(microseconds gap, int count) {
  PollerRest rest;
  std::vector<Pace> paces;
  for (int i = 0; i < count; ++i) paces.push_back(rest.Count(kStart + i * gap));
  return paces;
}

TEST(PollerRestTest, RefusalsAreRareDenseOrRapid) {
  EXPECT_THAT(PacesOf(PollerRest::kDense + microseconds(1), 100), Each(Pace::kRare));
  // The first one has none before it.
  EXPECT_THAT(PacesOf(PollerRest::kDense, 3), ElementsAre(Pace::kRare, Pace::kDense, Pace::kDense));
  EXPECT_EQ(PacesOf(PollerRest::kRapid + microseconds(50), 1000).back(), Pace::kDense);
  EXPECT_EQ(PacesOf(PollerRest::kRapid - microseconds(50), 1000).back(), Pace::kRapid);
  // A few at once are not rapid yet.
  EXPECT_THAT(PacesOf(microseconds(0), 10), Not(Contains(Pace::kRapid)));
  EXPECT_EQ(PacesOf(microseconds(0), 50).back(), Pace::kRapid);
}

// In a poller's bursts there is no time between refusals, and a period behind them.
TEST(PollerRestTest, BurstsAreAsRapidAsTheirMean) {
  PollerRest rest;
  int rapid = 0;
  for (int i = 0; i < 400; ++i) {
    const Pace pace = rest.Count(kStart + (i / 4) * ReadPace::kPeriod);
    rapid += pace == Pace::kRapid ? 1 : 0;
  }
  EXPECT_GE(rapid, 350);
  // And it ends with the first one behind a pause.
  const auto end = kStart + 100 * ReadPace::kPeriod + PollerRest::kDense + milliseconds(1);
  EXPECT_EQ(rest.Count(end), Pace::kRare);
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
  // Who still holds the call does not.
  bool rare = true, dense = false;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "nexting_thread");
    PollerRest unrested;
    rare = unrested.PaceAfterRefusal(kStart);
    dense = unrested.PaceAfterRefusal(kStart);
    EXPECT_TRUE(unrested.Begin());  // nobody rests
  }).join();
  EXPECT_FALSE(rare);
  EXPECT_TRUE(dense);
  // The other's refusals are not told, so that the next one is the first.
  PollerRest fresh;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "writer");
    for (int i = 0; i < 100; ++i) fresh.AfterRefusal(kStart);
  }).join();
  EXPECT_EQ(fresh.Count(kStart), Pace::kRare);
  EXPECT_EQ(fresh.Count(kStart), Pace::kDense);
}

}  // namespace
}  // namespace beamline::poller_rest_test
