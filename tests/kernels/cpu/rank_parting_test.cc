// After a fault no rank lets go of what others reach before all of them are done, in whatever order
// they hear of it.
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/rank_links.h"
#include "kernels/rank_sockets.h"
#include "tests/rank_door.h"
#include "tests/sanitized.h"
#include "tests/test_seed.h"

namespace beamline::rank_parting_test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 4;
constexpr std::chrono::seconds kLong{30};

absl::StatusOr<std::shared_ptr<RankLinks>> Enter(const RankDoor& door, int rank) {
  return rank == 0 ? RankLinks::Gather(door) : RankLinks::Join(door, rank);
}

// What each rank's device does: it reaches for the others' memory until some time after the rank
// has heard of the fault.
struct Devices {
  std::array<std::atomic<bool>, kRanks> reach;

  Devices() {
    for (auto& each : reach) each = true;
  }
  bool any() const {
    return std::ranges::any_of(reach, [](const auto& each) { return each.load(); });
  }
};

// Of a rank that is not killed, from the fault to its end.
void EndRank(RankLinks& links, milliseconds device_goes_on, Devices& devices) {
  const auto begin = Clock::now();
  while (links.fault().ok()) {
    ASSERT_LT(Clock::now() - begin, kLong) << "rank " << links.rank() << " heard nothing";
    std::this_thread::sleep_for(milliseconds(1));
  }
  std::this_thread::sleep_for(device_goes_on);
  devices.reach[static_cast<size_t>(links.rank())] = false;
  links.Part(kLong);
  EXPECT_FALSE(devices.any()) << "rank " << links.rank() << " has let go too early";
}

// Each of `failing` at once, once all are there.
void FailTogether(const std::vector<int>& failing, std::mt19937& random) {
  const RankDoor door = DoorFor(kRanks);
  Devices devices;
  std::barrier<> all(kRanks);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    const milliseconds goes_on(random() % 150);
    ranks.emplace_back([&, rank, goes_on] {
      const auto links = Enter(door, rank);
      ASSERT_TRUE(links.ok()) << links.status();
      all.arrive_and_wait();
      if (std::ranges::find(failing, rank) != failing.end()) {
        (*links)->Fail(absl::UnavailableError("no more of " + std::to_string(rank)));
      }
      EndRank(**links, goes_on, devices);
      EXPECT_THAT(std::string((*links)->fault().message()),
                  testing::MatchesRegex("no more of [0-3]"));
    });
  }
}

TEST(RankPartingTest, WhoeverFailsNobodyLetsGoEarly) {
  std::mt19937 random(TestSeed());
  for (int rank = 0; rank < kRanks; ++rank) FailTogether({rank}, random);
  for (int round = 0; round < (kSanitized ? 2 : 6); ++round) {
    FailTogether({1, 2}, random);
    FailTogether({0, 3}, random);
    FailTogether({1, 2, 3}, random);
  }
}

TEST(RankPartingTest, OfAKilledFollowerNobodyWaits) {
  std::mt19937 random(TestSeed());
  for (int killed = 1; killed < kRanks; ++killed) {
    const RankDoor door = DoorFor(kRanks);
    Devices devices;
    std::barrier<> all(kRanks);
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < kRanks; ++rank) {
      const milliseconds goes_on(random() % 150);
      ranks.emplace_back([&, rank, goes_on] {
        if (rank == killed) {
          const auto socket = ConnectToFront(door, rank);
          ASSERT_TRUE(socket.ok()) << socket.status();
          all.arrive_and_wait();
          devices.reach[static_cast<size_t>(rank)] = false;
          return;  // closed without a word
        }
        const auto links = Enter(door, rank);
        ASSERT_TRUE(links.ok()) << links.status();
        all.arrive_and_wait();
        EndRank(**links, goes_on, devices);
      });
    }
  }
}

// Nobody is left who would tell the followers of each other: each waits for a time.
TEST(RankPartingTest, OfAKilledFrontTheFollowersWaitForATime) {
  std::mt19937 random(TestSeed());
  const RankDoor door = DoorFor(kRanks);
  Devices devices;
  devices.reach[0] = false;
  std::barrier<> all(kRanks);
  std::vector<std::jthread> ranks;
  for (int rank = 1; rank < kRanks; ++rank) {
    const milliseconds goes_on(random() % 50);
    ranks.emplace_back([&, rank, goes_on] {
      const auto links = RankLinks::Join(door, rank);
      ASSERT_TRUE(links.ok()) << links.status();
      all.arrive_and_wait();
      const auto begin = Clock::now();
      EndRank(**links, goes_on, devices);
      EXPECT_GE(Clock::now() - begin, RankLinks::kUnheardTime);
      EXPECT_THAT(std::string((*links)->fault().message()), testing::HasSubstr("rank 0 at "));
    });
  }
  auto listener = ListenAt(door);
  ASSERT_TRUE(listener.ok()) << listener.status();
  auto followers = AcceptRanks(door, *std::move(listener));
  ASSERT_TRUE(followers.ok()) << followers.status();
  all.arrive_and_wait();
  followers->clear();
}

TEST(RankPartingTest, OfOneThatHangsTheOthersWaitNoLongerThanTheLimit) {
  const RankDoor door = DoorFor(2);
  std::barrier<> both(2);
  std::jthread follower([&] {
    const auto links = RankLinks::Join(door, 1);
    ASSERT_TRUE(links.ok()) << links.status();
    both.arrive_and_wait();
  });
  const auto links = RankLinks::Gather(door);
  ASSERT_TRUE(links.ok()) << links.status();
  (*links)->Fail(absl::UnavailableError("enough"));
  const auto begin = Clock::now();
  (*links)->Part(milliseconds(300));
  EXPECT_GE(Clock::now() - begin, milliseconds(300));
  EXPECT_LT(Clock::now() - begin, kLong);
  both.arrive_and_wait();
}

// Who leaves a collective has said why before: so nothing that was computed with it counts.
TEST(RankPartingTest, WhatARankHasToldIsSeenWhenItIsAsked) {
  const RankDoor door = DoorFor(3);
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> is_over = false, has_failed = false;
    std::jthread one([&] {
      const auto links = RankLinks::Join(door, 1);
      ASSERT_TRUE(links.ok()) << links.status();
      while (!is_over) std::this_thread::sleep_for(milliseconds(1));
    });
    std::jthread two([&] {
      const auto links = RankLinks::Join(door, 2);
      ASSERT_TRUE(links.ok()) << links.status();
      (*links)->Fail(absl::UnavailableError("its device broke"));
      has_failed = true;
      while (!is_over) std::this_thread::sleep_for(milliseconds(1));
    });
    const auto links = RankLinks::Gather(door);
    ASSERT_TRUE(links.ok()) << links.status();
    while (!has_failed) std::this_thread::yield();
    EXPECT_EQ((*links)->Look(), absl::UnavailableError("its device broke"));
    is_over = true;
  }
}

}  // namespace
}  // namespace beamline::rank_parting_test
