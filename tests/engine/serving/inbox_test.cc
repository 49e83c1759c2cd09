#include "engine/serving/inbox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "tests/until_asleep.h"

namespace beamline::inbox_test {
namespace {

TEST(InboxTest, GivesEverythingAtOnceInItsOrder) {
  Inbox<int> inbox;
  std::vector<int> items = {99};
  EXPECT_TRUE(inbox.Take(/*wait=*/false, items));
  EXPECT_TRUE(items.empty());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(inbox.Put(i));
  EXPECT_TRUE(inbox.Take(/*wait=*/true, items));
  EXPECT_EQ(items, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(inbox.Take(/*wait=*/false, items));
  EXPECT_TRUE(items.empty());
}

TEST(InboxTest, ClosedItLeavesTheItemToWhoeverBringsIt) {
  Inbox<std::unique_ptr<int>> inbox;
  auto early = std::make_unique<int>(1), late = std::make_unique<int>(2);
  EXPECT_TRUE(inbox.Put(early));
  EXPECT_EQ(early, nullptr);
  inbox.Close();
  EXPECT_FALSE(inbox.Put(late));
  ASSERT_NE(late, nullptr);
  EXPECT_EQ(*late, 2);
  std::vector<std::unique_ptr<int>> items;
  EXPECT_FALSE(inbox.Take(/*wait=*/true, items));  // closed; what came before is there
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(*items[0], 1);
  EXPECT_FALSE(inbox.Take(/*wait=*/true, items));  // at once
  EXPECT_TRUE(items.empty());
}

TEST(InboxTest, AnItemAndTheEndWakeTheTaker) {
  Inbox<int> inbox;
  const auto take = [&inbox] {
    return AsyncUntilAsleep([&inbox] {
      std::vector<int> items;
      const bool open = inbox.Take(/*wait=*/true, items);
      return open ? static_cast<int>(items.size()) : -1;
    });
  };
  auto woken = take();
  EXPECT_EQ(woken.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  int item = 7;
  inbox.Put(item);
  EXPECT_EQ(woken.get(), 1);
  auto ended = take();
  inbox.Close();
  EXPECT_EQ(ended.get(), -1);
}

TEST(InboxTest, TellsWhetherThereIsSomething) {
  Inbox<int> inbox;
  EXPECT_FALSE(inbox.HasSomething());
  int item = 7;
  inbox.Put(item);
  EXPECT_TRUE(inbox.HasSomething());
  std::vector<int> items;
  inbox.Take(/*wait=*/false, items);
  EXPECT_FALSE(inbox.HasSomething());
  inbox.Close();
  EXPECT_TRUE(inbox.HasSomething());
  inbox.Take(/*wait=*/true, items);
  EXPECT_TRUE(inbox.HasSomething());  // the end stays
}

TEST(InboxTest, AThreadThatPutsTakesThePlaceOfATakerThatSleeps) {
  using Result = Inbox<int>::PutResult;
  Inbox<int> inbox;
  int item = 1;
  EXPECT_EQ(inbox.PutInPlace(item), Result::kPut);  // nobody sleeps
  auto taker = AsyncUntilAsleep([&inbox] {
    std::vector<int> items;
    inbox.Take(/*wait=*/true, items);  // what there is already
    inbox.Take(/*wait=*/true, items);
    return items;
  });
  item = 2;
  EXPECT_EQ(inbox.PutInPlace(item), Result::kInPlace);
  item = 3;
  EXPECT_EQ(inbox.PutInPlace(item), Result::kPut);  // somebody is in its place
  item = 4;
  EXPECT_TRUE(inbox.Put(item));  // wakes nobody
  EXPECT_FALSE(inbox.TryGiveBack());
  std::vector<int> items;
  EXPECT_TRUE(inbox.Take(/*wait=*/false, items));
  EXPECT_EQ(items, (std::vector<int>{2, 3, 4}));
  EXPECT_TRUE(inbox.TryGiveBack());
  item = 5;
  EXPECT_EQ(inbox.PutInPlace(item), Result::kInPlace);  // once more
  EXPECT_EQ(taker.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  inbox.GiveBack();
  EXPECT_EQ(taker.get(), (std::vector<int>{5}));
}

TEST(InboxTest, ATakerThatLooksIsWokenAndItsPlaceTakenAsOneThatSleeps) {
  constexpr std::chrono::seconds kLong(60);
  Inbox<int> inbox;
  std::atomic<bool> has_begun = false;
  auto taker = std::async(std::launch::async, [&] {
    has_begun = true;
    std::vector<int> items;
    inbox.Take(/*wait=*/true, items, kLong);
    return items;
  });
  while (!has_begun) std::this_thread::yield();
  const auto put_in_place = [&](int item) {
    return inbox.PutInPlace(item) == Inbox<int>::PutResult::kInPlace;
  };
  std::vector<int> items;
  // It may not have come to its look yet, and have taken what is put before.
  if (put_in_place(1)) {
    EXPECT_TRUE(inbox.Take(/*wait=*/false, items));
    EXPECT_EQ(items, std::vector<int>{1});
    EXPECT_TRUE(inbox.TryGiveBack());
    EXPECT_EQ(taker.wait_for(std::chrono::milliseconds(5)), std::future_status::timeout);
    int item = 2;
    EXPECT_TRUE(inbox.Put(item));
    EXPECT_EQ(taker.get(), std::vector<int>{2});
  } else {
    EXPECT_EQ(taker.get(), std::vector<int>{1});
  }
}

TEST(InboxTest, ATakerThatHasLookedInVainSleeps) {
  Inbox<int> inbox;
  auto taker = AsyncUntilAsleep([&inbox] {
    std::vector<int> items;
    inbox.Take(/*wait=*/true, items, std::chrono::microseconds(100));
    return items;
  });
  EXPECT_EQ(taker.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  int item = 7;
  inbox.Put(item);
  EXPECT_EQ(taker.get(), std::vector<int>{7});
}

TEST(InboxTest, TheEndComesToTheTakerWhosePlaceWasTaken) {
  Inbox<int> inbox;
  auto taker = AsyncUntilAsleep([&inbox] {
    std::vector<int> items;
    return inbox.Take(/*wait=*/true, items);
  });
  int item = 1;
  ASSERT_EQ(inbox.PutInPlace(item), Inbox<int>::PutResult::kInPlace);
  inbox.Close();
  std::vector<int> items;
  EXPECT_FALSE(inbox.Take(/*wait=*/false, items));
  EXPECT_EQ(items.size(), 1u);
  EXPECT_FALSE(inbox.TryGiveBack());
  EXPECT_EQ(inbox.PutInPlace(item), Inbox<int>::PutResult::kClosed);
  EXPECT_EQ(taker.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  inbox.GiveBack();
  EXPECT_FALSE(taker.get());
}

// Threads that put take in the taker's place now and then; the taker itself at times.
TEST(InboxTest, LosesNothingWhoeverTakes) {
  constexpr int kThreads = 4, kItems = 5000;
  Inbox<int> inbox;
  std::vector<int> all, items;  // of whoever takes
  const auto take_all = [&](bool wait) {
    const bool open = inbox.Take(wait, items, std::chrono::microseconds(all.size() % 3 * 5));
    all.insert(all.end(), items.begin(), items.end());
    return open;
  };
  std::thread taker([&] {
    while (take_all(/*wait=*/true)) {
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kItems; ++i) {
        int item = t * kItems + i;
        if (inbox.PutInPlace(item) != Inbox<int>::PutResult::kInPlace) continue;
        do take_all(/*wait=*/false);
        while (i % 7 != 0 && !inbox.TryGiveBack());
        if (i % 7 == 0) inbox.GiveBack();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  inbox.Close();
  taker.join();
  std::sort(all.begin(), all.end());
  ASSERT_EQ(all.size(), static_cast<size_t>(kThreads * kItems));
  for (int i = 0; i < kThreads * kItems; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
}

TEST(InboxTest, LosesNothingOfManyThreads) {
  constexpr int kThreads = 4, kItems = 5000;
  Inbox<int> inbox;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&inbox, t] {
      for (int i = 0; i < kItems; ++i) {
        int item = t * kItems + i;
        EXPECT_TRUE(inbox.Put(item));
      }
    });
  }
  std::vector<int> all, items;
  while (all.size() < kThreads * kItems) {
    inbox.Take(/*wait=*/true, items);
    all.insert(all.end(), items.begin(), items.end());
  }
  for (std::thread& thread : threads) thread.join();
  std::sort(all.begin(), all.end());
  for (int i = 0; i < kThreads * kItems; ++i) ASSERT_EQ(all[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace beamline::inbox_test
