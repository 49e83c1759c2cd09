#include "base/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

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

}  // namespace
}  // namespace beamline::worker_pool_test
