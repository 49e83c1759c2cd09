#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace beamline::cpu::thread_pool_test {
namespace {

TEST(ThreadPoolTest, RunsEveryItemOnce) {
  ThreadPool pool;
  pool.Grow(4);
  for (int num_threads : {1, 2, 4}) {
    for (int64_t num_items : {0, 1, 3, 4, 5, 1000}) {
      for (int64_t chunk : {1, 3, 2000}) {
        std::vector<std::atomic<int>> counts(num_items);
        pool.ParallelFor(num_threads, num_items, chunk,
                         [&](int64_t begin, int64_t end, int thread) {
                           EXPECT_LT(thread, num_threads);
                           for (int64_t i = begin; i < end; ++i) counts[i].fetch_add(1);
                         });
        for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
      }
    }
  }
}

// What the body wrote is visible to the caller without any synchronisation of its own.
TEST(ThreadPoolTest, ResultsAreVisibleToTheCaller) {
  ThreadPool pool;
  pool.Grow(3);
  std::vector<int64_t> values(64);
  for (int64_t round = 0; round < 2000; ++round) {
    pool.ParallelFor(3, 64, 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) values[i] = round + i;
    });
    for (int64_t i = 0; i < 64; ++i) ASSERT_EQ(values[i], round + i);
  }
}

TEST(ThreadPoolTest, ConcurrentCallersTakeTurns) {
  ThreadPool pool;
  pool.Grow(3);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int64_t> total{0};
  const auto caller = [&] {
    for (int round = 0; round < 300; ++round) {
      pool.ParallelFor(3, 12, 1, [&](int64_t begin, int64_t end, int) {
        const int now = inside.fetch_add(1) + 1;
        int seen = most.load();
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        total.fetch_add(end - begin);
        inside.fetch_sub(1);
      });
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(caller);
  for (std::thread& thread : callers) thread.join();
  EXPECT_EQ(total.load(), 4 * 300 * 12);
  EXPECT_LE(most.load(), 3);  // never more than the pool's threads, whatever the number of callers
}

TEST(ThreadPoolTest, GrowsWhileInUse) {
  ThreadPool pool;
  std::atomic<int64_t> total{0};
  std::thread caller([&] {
    for (int round = 0; round < 500; ++round) {
      pool.ParallelFor(4, 8, 1, [&](int64_t begin, int64_t end, int) { total += end - begin; });
    }
  });
  for (int num_threads = 2; num_threads <= 4; ++num_threads) pool.Grow(num_threads);
  caller.join();
  EXPECT_EQ(total.load(), 500 * 8);
}

// Workers that sleep still take part in the next call, and a pool without calls stops at once.
TEST(ThreadPoolTest, WakesSleepingWorkers) {
  ThreadPool pool;
  pool.Grow(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::atomic<bool> worker_came{false};
  pool.ParallelFor(2, 2, 1, [&](int64_t, int64_t, int thread) {
    if (thread == 1) worker_came = true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!worker_came && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_TRUE(worker_came);
}

}  // namespace
}  // namespace beamline::cpu::thread_pool_test
