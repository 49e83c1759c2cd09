#include "base/worker_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <future>
#include <system_error>
#include <vector>

#include "base/work_batch.h"
#include "tests/thread_limit.h"

namespace beamline::worker_pool_test {
namespace {

TEST(WorkerPoolTest, OneThreadWorksInOrder) {
  std::vector<int> done;
  {
    WorkerPool pool(1);
    for (int i = 0; i < 1000; ++i) pool.Post([&done, i] { done.push_back(i); });
  }
  ASSERT_EQ(done.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
}

TEST(WorkerPoolTest, ThrowsWhereThereIsNoThread) {
  const ThreadLimit limit(2);
  EXPECT_THROW(WorkerPool(3), std::system_error);
}

TEST(WorkerPoolTest, EndsWhenAllThatWasPostedIsDone) {
  std::atomic<int> done = 0;
  {
    WorkerPool pool(3);
    for (int i = 0; i < 1000; ++i) pool.Post([&done] { ++done; });
  }
  EXPECT_EQ(done, 1000);
}

// Each piece of work waits for all of them: fewer threads than that would never get there.
TEST(WorkerPoolTest, HasAsManyThreadsAsAsked) {
  constexpr int kThreads = 4;
  std::atomic<int> arrived = 0, met = 0;
  {
    WorkerPool pool(kThreads);
    std::promise<void> all;
    const std::shared_future<void> met_all = all.get_future().share();
    for (int i = 0; i < kThreads; ++i) {
      pool.Post([&, met_all] {
        if (++arrived == kThreads) all.set_value();
        if (met_all.wait_for(std::chrono::seconds(20)) == std::future_status::ready) ++met;
      });
    }
    EXPECT_EQ(met_all.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
  EXPECT_EQ(met, kThreads);
}

TEST(WorkerPoolTest, WorkMayPostMore) {
  std::promise<void> done;
  WorkerPool pool(1);
  pool.Post([&] { pool.Post([&done] { done.set_value(); }); });
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

// A pool of one thread, which waits until all is posted.
class HeldPool {
 public:
  HeldPool() {
    pool_.Post([release = release_.get_future().share()] { release.wait(); });
  }
  WorkerPool* operator->() { return &pool_; }
  void Release() { release_.set_value(); }

 private:
  std::promise<void> release_;
  WorkerPool pool_{1};
};

TEST(WorkerPoolTest, FirstTurnsGoBeforeAllOthersInTheirOrder) {
  std::vector<int> done;
  {
    HeldPool pool;
    pool->Post([&] { done.push_back(3); });
    pool->PostSend([&] { done.push_back(4); }, WorkerPool::Turn::kLast);
    pool->PostSend([&] { done.push_back(1); }, WorkerPool::Turn::kFirst);
    pool->PostSend([&] { done.push_back(2); }, WorkerPool::Turn::kFirst);
    pool.Release();
  }
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3, 4}));
}

TEST(WorkerPoolTest, FirstTurnsOfABatchGoBeforeAllOthers) {
  std::vector<int> done;
  {
    HeldPool pool;
    pool->Post([&] { done.push_back(2); });
    {
      const WorkBatch batch;
      pool->PostSend([&] { done.push_back(3); }, WorkerPool::Turn::kLast);
      pool->PostSend([&] { done.push_back(1); }, WorkerPool::Turn::kFirst);
    }
    pool.Release();
  }
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3}));
}

// Each piece waits for the other: one thread that took both would never end the first.
TEST(WorkerPoolTest, SeveralThreadsShareWhatSends) {
  std::atomic<int> arrived = 0;
  std::promise<void> both;
  const std::shared_future<void> met = both.get_future().share();
  WorkerPool pool(2);
  for (int i = 0; i < 2; ++i) {
    pool.PostSend(
        [&] {
          if (++arrived == 2) both.set_value();
          met.wait_for(std::chrono::seconds(20));
        },
        WorkerPool::Turn::kLast);
  }
  EXPECT_EQ(met.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

}  // namespace
}  // namespace beamline::worker_pool_test
