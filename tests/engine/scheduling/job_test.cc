// A request's place among those that wait, and its one answer.
#include "engine/scheduling/job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/scheduling/job_fixture.h"

namespace beamline::job_test {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

TEST(WaitingCountTest, CountsUntilItLeavesOrEnds) {
  WaitingCounter counter;
  {
    auto first = WaitingCount::Enter(counter, kNoLimit);
    auto second = WaitingCount::Enter(counter, kNoLimit);
    EXPECT_EQ(counter.count(), 2);
    first->Leave();
    EXPECT_EQ(counter.count(), 1);
    first->Leave();  // it left already
    EXPECT_EQ(counter.count(), 1);
  }
  EXPECT_EQ(counter.count(), 0);
}

TEST(WaitingCountTest, CountsOnceWhereverItGoes) {
  WaitingCounter counter;
  WaitingCount held = *WaitingCount::Enter(counter, kNoLimit);
  WaitingCount taken(std::move(held));
  EXPECT_EQ(counter.count(), 1);
  WaitingCount other = *WaitingCount::Enter(counter, kNoLimit);
  EXPECT_EQ(counter.count(), 2);
  other = std::move(taken);
  taken = WaitingCount();
  EXPECT_EQ(counter.count(), 1);
  other = WaitingCount();
  EXPECT_EQ(counter.count(), 0);
}

TEST(WaitingCountTest, RefusesAtTheLimit) {
  WaitingCounter counter;
  auto one = WaitingCount::Enter(counter, 2);
  auto two = WaitingCount::Enter(counter, 2);
  EXPECT_TRUE(one.has_value() && two.has_value());
  EXPECT_FALSE(WaitingCount::Enter(counter, 2).has_value());
  EXPECT_EQ(counter.count(), 2);
  one->Leave();
  EXPECT_TRUE(WaitingCount::Enter(counter, 2).has_value());
  EXPECT_FALSE(WaitingCount::Enter(counter, 0).has_value());
}

TEST(WaitingCountTest, ThreadsNeverExceedTheLimit) {
  constexpr int64_t kLimit = 3;
  WaitingCounter counter;
  std::atomic<int> inside = 0, entered = 0;
  std::atomic<bool> exceeded = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto waiting = WaitingCount::Enter(counter, kLimit);
        if (!waiting.has_value()) continue;
        ++entered;
        if (++inside > kLimit) exceeded = true;
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_GT(entered, 0);
  EXPECT_EQ(counter.count(), 0);
}

TEST_F(JobTest, TheFirstStepEndsTheWait) {
  const auto job = NewJob();
  job->rank.arrival = Clock::time_point() + std::chrono::seconds(5);
  EXPECT_FALSE(job->begun());
  job->Begin(job->rank.arrival + std::chrono::seconds(2));
  EXPECT_EQ(counter_.count(), 0);
  EXPECT_EQ(job->queue_time, std::chrono::seconds(2));
  job->Begin(job->rank.arrival + std::chrono::seconds(9));  // again, after a preemption
  EXPECT_EQ(job->queue_time, std::chrono::seconds(2));
  EXPECT_EQ(counter_.count(), 0);
}

TEST_F(JobTest, AnswersOnceAndWaitsNoMoreThen) {
  const auto job = NewJob();
  job->Answer(absl::CancelledError("first"));
  EXPECT_TRUE(job->done);
  job->Answer(EncodeResult());
  job->Answer(absl::InternalError("third"));
  EXPECT_EQ(sink_->num_answers, 1);
  EXPECT_EQ(sink_->status.message(), "first");
  EXPECT_EQ(sink_->waiting, 0);
}

TEST_F(JobTest, AJobThatVanishesIsNotCounted) {
  NewJob().reset();
  EXPECT_EQ(counter_.count(), 0);
}

}  // namespace
}  // namespace beamline::job_test
