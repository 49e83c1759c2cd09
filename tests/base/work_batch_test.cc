#include "base/work_batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "base/worker_pool.h"

namespace beamline::work_batch_test {
namespace {

constexpr std::chrono::milliseconds kMoment(50);
constexpr std::chrono::seconds kLong(20);

// Which of the threads ran it: this one or another.
class Ran {
 public:
  WorkerPool::Work Work() {
    return [this] { thread_.set_value(std::this_thread::get_id()); };
  }
  bool Within(std::chrono::milliseconds time) {
    return future_.wait_for(time) == std::future_status::ready;
  }
  bool Here() { return Within(kLong) && future_.get() == std::this_thread::get_id(); }

 private:
  std::promise<std::thread::id> thread_;
  std::shared_future<std::thread::id> future_ = thread_.get_future().share();
};

TEST(WorkBatchTest, KeepsWhatIsPostedUntilItIsHandedOver) {
  WorkerPool pool(1);
  Ran long_work, brief;
  WorkBatch batch;
  pool.Post(long_work.Work());
  EXPECT_EQ(batch.num_brief(), 0u);
  pool.PostBrief(brief.Work());
  EXPECT_EQ(batch.num_brief(), 1u);
  EXPECT_FALSE(long_work.Within(kMoment));
  EXPECT_FALSE(brief.Within(kMoment));
  batch.HandOver();
  EXPECT_FALSE(long_work.Here());
  EXPECT_FALSE(brief.Here());
}

TEST(WorkBatchTest, AnIdleThreadRunsBriefWorkItself) {
  WorkerPool pool(1);
  Ran long_work, brief;
  WorkBatch batch;
  pool.PostBrief(brief.Work());
  pool.Post(long_work.Work());
  batch.RunWhile([] { return true; });
  EXPECT_TRUE(brief.Here());
  EXPECT_FALSE(long_work.Here());
}

TEST(WorkBatchTest, HandsOverTheRestWhenTheThreadIsNoLongerIdle) {
  WorkerPool pool(2);
  std::vector<Ran> work(4);
  WorkBatch batch;
  for (Ran& one : work) pool.PostBrief(one.Work());
  int asked = 0;
  batch.RunWhile([&asked] { return ++asked <= 2; });
  EXPECT_TRUE(work[0].Here());
  EXPECT_TRUE(work[1].Here());
  EXPECT_FALSE(work[2].Here());
  EXPECT_FALSE(work[3].Here());
  EXPECT_EQ(asked, 3);
}

TEST(WorkBatchTest, WhatBriefWorkPostsIsNotLost) {
  WorkerPool pool(1);
  Ran long_work, brief;
  WorkBatch batch;
  pool.PostBrief([&] {
    pool.Post(long_work.Work());
    pool.PostBrief(brief.Work());
  });
  batch.RunWhile([] { return true; });
  EXPECT_TRUE(brief.Here());
  EXPECT_FALSE(long_work.Here());
}

TEST(WorkBatchTest, EachPoolGetsItsOwnInOrder) {
  std::vector<int> first, second;
  {
    WorkerPool pool_a(1), pool_b(1);
    const WorkBatch batch;
    for (int i = 0; i < 100; ++i) {
      pool_a.Post([&first, i] { first.push_back(i); });
      if (i % 3 == 0) pool_b.Post([&second, i] { second.push_back(i); });
    }
  }
  ASSERT_EQ(first.size(), 100u);
  ASSERT_EQ(second.size(), 34u);
  EXPECT_TRUE(std::ranges::is_sorted(first));
  EXPECT_TRUE(std::ranges::is_sorted(second));
}

TEST(WorkBatchTest, ItsEndHandsOver) {
  WorkerPool pool(1);
  Ran before, after;
  {
    const WorkBatch batch;
    pool.Post(before.Work());
  }
  EXPECT_FALSE(before.Here());
  pool.Post(after.Work());  // as if there had been none
  EXPECT_FALSE(after.Here());
}

TEST(WorkBatchTest, OfAnotherThreadItKeepsNothing) {
  WorkerPool pool(1);
  Ran work;
  const WorkBatch batch;
  std::thread([&] { pool.Post(work.Work()); }).join();
  EXPECT_TRUE(work.Within(kLong));
}

TEST(WorkBatchTest, HandsOverTheRestOnceItIsNotIdle) {
  WorkerPool pool(1);
  Ran handed_over;
  WorkBatch batch;
  bool idle = true;
  pool.PostBrief([&] {
    idle = false;
    EXPECT_FALSE(handed_over.Within(kMoment));
  });
  pool.PostBrief(handed_over.Work());
  batch.RunWhile([&] { return idle; });
  EXPECT_TRUE(handed_over.Within(kLong));
}

// Batches of many threads, to threads that sleep and wake all the time.
TEST(WorkBatchTest, LosesNothing) {
  constexpr int kThreads = 3, kRounds = 300, kMost = 7;
  std::atomic<int> done = 0;
  int posted = 0;
  {
    WorkerPool pool(2);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&pool, &done, t] {
        WorkBatch batch;
        for (int round = 0; round < kRounds; ++round) {
          for (int i = 0; i <= (round + t) % kMost; ++i) pool.PostBrief([&done] { ++done; });
          if (round % 2 == 0) {
            batch.HandOver();
          } else {
            batch.RunWhile([round] { return round % 4 == 1; });
          }
          if (round % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int t = 0; t < kThreads; ++t) {
      for (int round = 0; round < kRounds; ++round) posted += (round + t) % kMost + 1;
    }
  }
  EXPECT_EQ(done, posted);
}

}  // namespace
}  // namespace beamline::work_batch_test
