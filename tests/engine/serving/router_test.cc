// Which replica gets a request, and why not another.
#include "engine/serving/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "engine/serving/step_rate.h"

namespace beamline::router_test {
namespace {

using testing::ElementsAre;

constexpr uint64_t kSeed = 5;

std::vector<ReplicaView> Idle(int count) {
  std::vector<ReplicaView> views(static_cast<size_t>(count));
  for (ReplicaView& view : views) view.seconds_per_token = 0.001;
  return views;
}

std::vector<Beginning> Prompt(int32_t first, int32_t length = 100) {
  std::vector<int32_t> ids(static_cast<size_t>(length));
  std::iota(ids.begin(), ids.end(), first);
  return BeginningsOf(ids, "", 16);
}

TEST(BeginningsTest, AreOfOneTwoFourBlocks) {
  std::vector<int32_t> lengths;
  for (const Beginning& beginning : Prompt(0, 100)) lengths.push_back(beginning.tokens);
  EXPECT_THAT(lengths, ElementsAre(16, 32, 64));
  EXPECT_EQ(Prompt(0, 64).size(), 2u);  // the last token is always computed
  EXPECT_EQ(Prompt(0, 65).size(), 3u);
  EXPECT_TRUE(Prompt(0, 16).empty());
}

TEST(BeginningsTest, DependOnAllTokensBeforeAndOnTheSalt) {
  std::vector<int32_t> ids(100);
  std::iota(ids.begin(), ids.end(), 0);
  const auto plain = BeginningsOf(ids, "", 16);
  const auto salted = BeginningsOf(ids, "s", 16);
  ids[20] = 7;
  const auto changed = BeginningsOf(ids, "", 16);
  ASSERT_EQ(plain.size(), 3u);
  EXPECT_EQ(plain[0].hash, changed[0].hash);
  EXPECT_NE(plain[1].hash, changed[1].hash);
  EXPECT_NE(plain[2].hash, changed[2].hash);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NE(plain[i].hash, salted[i].hash);
}

TEST(ExpectedWaitsTest, AreTokensByTheStepsOfTheReplica) {
  EXPECT_THAT(ExpectedWaits(std::vector<ReplicaView>{{.tokens = 100, .seconds_per_token = 0.01},
                                                     {.tokens = 100, .seconds_per_token = 0.03},
                                                     {.tokens = 100}}),
              ElementsAre(1.0, 3.0, 2.0));  // the last one as the others on average
}

TEST(StepRateTest, LargeStepsWeighMost) {
  StepRate rate;
  EXPECT_EQ(rate.seconds_per_token(), 0);
  for (int i = 0; i < 100; ++i) rate.Add(1, 0.01);
  EXPECT_NEAR(rate.seconds_per_token(), 0.01, 1e-9);
  for (int i = 0; i < 5; ++i) rate.Add(1000, 0.1);
  EXPECT_NEAR(rate.seconds_per_token(), 0.0001, 1e-6);
  rate.Add(0, 1);  // of a step without tokens nothing is learnt
  EXPECT_NEAR(rate.seconds_per_token(), 0.0001, 1e-6);
}

TEST(RouterTest, OfTwoTheOneWithLessBeforeIt) {
  Router router(2, kSeed);
  auto views = Idle(2);
  views[0].tokens = 50;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(router.Choose(views, {}), 1);
  views[1] = {.tokens = 10, .requests = 1, .seconds_per_token = 0.01};  // less, and slower
  for (int i = 0; i < 20; ++i) EXPECT_EQ(router.Choose(views, {}), 0);
  views = Idle(2);
  views[0].requests = 1;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(router.Choose(views, {}), 1);
}

TEST(RouterTest, WhoCannotAnswerGetsNothing) {
  Router router(3, kSeed);
  auto views = Idle(3);
  const auto prompt = Prompt(0);
  const std::optional<int> home = router.Choose(views, prompt);
  ASSERT_TRUE(home.has_value());
  views[static_cast<size_t>(*home)].can_answer = false;
  for (int i = 0; i < 20; ++i) EXPECT_NE(router.Choose(views, prompt), home);
  for (ReplicaView& view : views) view.can_answer = false;
  EXPECT_EQ(router.Choose(views, prompt), std::nullopt);
  views[1].can_answer = true;
  EXPECT_EQ(router.Choose(views, prompt), 1);
}

TEST(RouterTest, AKnownBeginningGoesWhereItWas) {
  Router router(4, kSeed);
  const auto views = Idle(4);
  std::set<int> homes;
  for (int32_t prompt = 0; prompt < 40; ++prompt) {
    const auto beginnings = Prompt(1000 * prompt);
    const std::optional<int> home = router.Choose(views, beginnings);
    ASSERT_TRUE(home.has_value());
    homes.insert(*home);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(router.Choose(views, beginnings), home);
  }
  EXPECT_EQ(homes.size(), 4u);
}

// Whether no two beginnings of both prompts meet in an entry of the router's table. Hashes differ
// from process to process.
bool HaveEntriesOfTheirOwn(absl::Span<const int32_t> one, absl::Span<const int32_t> other) {
  std::set<uint64_t> hashes, entries;
  for (const auto& prompt : {one, other}) {
    for (const Beginning& beginning : BeginningsOf(prompt, "", 16)) {
      hashes.insert(beginning.hash);
      entries.insert(beginning.hash % Router::kNumEntries);
    }
  }
  return hashes.size() == entries.size();
}

// What is longest alike decides.
TEST(RouterTest, TheLongestBeginningWins) {
  Router router(2, kSeed);
  std::vector<int32_t> ids(100), changed;
  do {
    std::iota(ids.begin(), ids.end(), ids.back() + 1);
    changed = ids;
    changed[40] = changed[70] = 7;
  } while (!HaveEntriesOfTheirOwn(ids, changed));
  auto views = Idle(2);
  views[1].tokens = 1000000;
  ASSERT_EQ(router.Choose(views, BeginningsOf(ids, "", 16)), 0);
  std::vector<int32_t> other = ids;
  other[70] = 7;  // the first 64 alike
  std::swap(views[0].tokens, views[1].tokens);
  other[40] = 7;  // the first 32 alike
  ASSERT_EQ(router.Choose(views, BeginningsOf(other, "", 16)), 1);
  views = Idle(2);
  EXPECT_EQ(router.Choose(views, BeginningsOf(ids, "", 16)), 0);
  EXPECT_EQ(router.Choose(views, BeginningsOf(other, "", 16)), 1);
}

// It may wait as long as computing the beginning anew takes: 64 tokens.
TEST(RouterTest, AffinityStarvesNobody) {
  Router router(2, kSeed);
  auto views = Idle(2);
  const auto beginnings = Prompt(0);
  const int home = *router.Choose(views, beginnings);
  views[static_cast<size_t>(home)].tokens = 64;
  EXPECT_EQ(router.Choose(views, beginnings), home);
  views[static_cast<size_t>(home)].tokens = 65;
  EXPECT_EQ(router.Choose(views, beginnings), 1 - home);
  EXPECT_EQ(router.Choose(Idle(2), beginnings), 1 - home);  // there it is now
}

TEST(RouterTest, AReplicaThatWasRestartedHasNothing) {
  auto views = Idle(2);
  const auto beginnings = Prompt(0);
  for (const bool forgets : {false, true}) {
    Router router(2, kSeed);
    const int home = *router.Choose(views, beginnings);
    if (forgets) router.Forget(home);
    views[static_cast<size_t>(home)].tokens = 10;
    EXPECT_EQ(router.Choose(views, beginnings), forgets ? 1 - home : home);
    views = Idle(2);
  }
}

// Of any number, with and without beginnings in common, the busiest has little more than its share.
TEST(RouterTest, WorkIsSharedOutEvenly) {
  std::mt19937_64 random(kSeed);
  for (const int count : {2, 3, 4, 8, 16}) {
    for (const bool alike : {false, true}) {
      Router router(count, kSeed);
      auto views = Idle(count);
      int64_t total = 0;
      for (int i = 0; i < 300 * count; ++i) {
        const int64_t tokens = std::uniform_int_distribution<int64_t>(20, 300)(random);
        const auto beginnings = alike ? Prompt(i % 7 * 1000) : std::vector<Beginning>();
        const auto chosen = static_cast<size_t>(*router.Choose(views, beginnings));
        views[chosen].tokens += tokens;
        ++views[chosen].requests;
        total += tokens;
      }
      for (const ReplicaView& view : views) {
        EXPECT_LE(view.tokens, 1.1 * static_cast<double>(total) / count) << count;
        EXPECT_GE(view.tokens, 0.9 * static_cast<double>(total) / count) << count;
      }
    }
  }
}

}  // namespace
}  // namespace beamline::router_test
