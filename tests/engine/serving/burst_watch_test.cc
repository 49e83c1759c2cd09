#include "engine/serving/burst_watch.h"

#include <gtest/gtest.h>

#include <chrono>
#include <initializer_list>

namespace beamline::burst_watch_test {
namespace {

using std::chrono::microseconds;

struct Arrival {
  bool ends_sleep;
  size_t num_requests;
  int64_t at_us;
};

// Whether more are expected with the last of these.
bool ExpectsMore(std::initializer_list<Arrival> arrivals) {
  BurstWatch watch;
  EXPECT_FALSE(watch.expects_more());
  for (const Arrival& arrival : arrivals) {
    const Clock::time_point at(microseconds(1000000 + arrival.at_us));
    if (arrival.ends_sleep) {
      watch.Wake(arrival.num_requests, at);
    } else {
      watch.Add(arrival.num_requests, at);
    }
  }
  return watch.expects_more();
}

TEST(BurstWatchTest, ExpectsABurstBehindABurst) {
  EXPECT_TRUE(ExpectsMore({{true, 16, 0}, {true, 1, 20000}}));
  EXPECT_TRUE(ExpectsMore({{true, 1, 0}, {false, 5, 50}, {false, 10, 499}, {true, 1, 20000}}));
}

TEST(BurstWatchTest, ExpectsNothingOfTheFirst) {
  EXPECT_FALSE(ExpectsMore({{true, 100, 0}}));
  EXPECT_FALSE(ExpectsMore({{true, 1, 0}, {false, 100, 50}}));
}

TEST(BurstWatchTest, ExpectsNothingBehindFew) {
  EXPECT_FALSE(ExpectsMore({{true, 15, 0}, {true, 1, 20000}}));
  EXPECT_FALSE(ExpectsMore({{true, 16, 0}, {true, 1, 20000}, {true, 1, 40000}}));
}

TEST(BurstWatchTest, WhatComesLaterIsNoBurst) {
  EXPECT_FALSE(ExpectsMore({{true, 1, 0}, {false, 14, 100}, {false, 100, 500}, {true, 1, 20000}}));
}

}  // namespace
}  // namespace beamline::burst_watch_test
