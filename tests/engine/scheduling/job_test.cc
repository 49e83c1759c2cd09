// A request's place among those that wait, and its one answer.
#include "engine/scheduling/job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "engine/scheduling/encode_job.h"
#include "engine/scheduling/job_list.h"
#include "tests/test_seed.h"

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

// Notes how many waited when the answer came.
class NotingSink : public EncodeSink {
 public:
  explicit NotingSink(const WaitingCounter& counter) : counter_(counter) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    ++num_answers;
    status = result.status();
    waiting = counter_.count();
  }

  int num_answers = 0;
  absl::Status status;
  int64_t waiting = -1;

 private:
  const WaitingCounter& counter_;
};

class JobTest : public testing::Test {
 protected:
  std::unique_ptr<EncodeJob> NewJob() {
    auto job = std::make_unique<EncodeJob>();
    job->waiting = *WaitingCount::Enter(counter_, kNoLimit);
    job->sink = sink_;
    job->cancelled = cancelled_;
    job->client = "me";
    return job;
  }

  WaitingCounter counter_;
  std::shared_ptr<NotingSink> sink_ = std::make_shared<NotingSink>(counter_);
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

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

TEST_F(JobTest, AListEndsWhatIsCancelledOrOverdueAndForgetsWhatIsDone) {
  const Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  const ServiceRate rate;
  JobList<EncodeJob> jobs;
  jobs.Add(NewJob());
  jobs.Add(NewJob());
  jobs.jobs()[1]->cancelled = std::make_shared<std::atomic<bool>>(false);
  jobs.jobs()[1]->deadline = now;
  jobs.Add(NewJob());
  jobs.jobs()[2]->cancelled = std::make_shared<std::atomic<bool>>(false);
  jobs.jobs()[2]->deadline = now + std::chrono::nanoseconds(1);
  EXPECT_EQ(jobs.EndOverdue(now, rate, true).cancelled, 0);
  EXPECT_EQ(sink_->status.code(), absl::StatusCode::kDeadlineExceeded);
  *cancelled_ = true;
  EXPECT_EQ(jobs.EndOverdue(now, rate, true).cancelled, 1);
  EXPECT_EQ(sink_->status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(jobs.EndOverdue(now, rate, true).cancelled, 0);  // those that are done are left alone
  EXPECT_EQ(sink_->num_answers, 2);
  EXPECT_EQ(counter_.count(), 1);

  int removed = 0;
  jobs.RemoveDone([&](std::unique_ptr<EncodeJob>) { ++removed; });
  EXPECT_EQ(removed, 2);
  EXPECT_EQ(jobs.jobs().size(), 1u);
  jobs.FailAll(absl::UnavailableError("broken"));
  EXPECT_EQ(sink_->status.code(), absl::StatusCode::kUnavailable);
  jobs.RemoveDone([](std::unique_ptr<EncodeJob>) {});
  EXPECT_TRUE(jobs.empty());
  EXPECT_EQ(counter_.count(), 0);
}

TEST_F(JobTest, AListKeepsThoseThatHaveBegunApart) {
  const Clock::time_point now;
  std::mt19937_64 random(TestSeed());
  JobList<EncodeJob> jobs;
  std::set<const EncodeJob*> begun, waiting;
  const auto pointers = [](const auto& some) {
    std::set<const EncodeJob*> all;
    for (const auto& job : some) all.insert(job.get());
    return all;
  };
  for (int step = 0; step < 3000; ++step) {
    const auto any = [&]() -> EncodeJob& { return *jobs.jobs()[random() % jobs.jobs().size()]; };
    const uint64_t what = random() % 5;
    if (jobs.empty() || what < 2) {
      jobs.Add(NewJob());
      waiting.insert(jobs.jobs().back().get());
    } else if (what == 2) {
      EncodeJob& job = any();
      jobs.Begin(job, now);
      waiting.erase(&job);
      begun.insert(&job);
    } else {
      EncodeJob& job = any();
      job.begun() ? job.Answer(EncodeResult()) : jobs.Drop(job);
      begun.erase(&job);
      waiting.erase(&job);
      jobs.RemoveDone([](std::unique_ptr<EncodeJob> removed) { EXPECT_TRUE(removed->done); });
    }
    ASSERT_EQ(pointers(jobs.begun()), begun);
    ASSERT_EQ(pointers(jobs.waiting()), waiting);
  }
}

// Their turns are those of the tags that they got when they were described.
TEST_F(JobTest, WhatEndsWaitingIsNotOwed) {
  JobList<EncodeJob> jobs;
  const auto add = [&](const std::string& client) -> EncodeJob& {
    auto job = NewJob();
    job->waiting.Describe({0, client, /*cost=*/10, 1, Clock::time_point()}, 100);
    jobs.Add(std::move(job));
    return *jobs.jobs().back();
  };
  const auto clients = [&] { return counter_.Look([](const auto& w) { return w.num_clients(); }); };
  EncodeJob& first = add("a");
  EXPECT_EQ(first.rank.fair_tag, 0);
  EncodeJob& second = add("a");
  EXPECT_EQ(second.rank.fair_tag, 10);
  EXPECT_EQ(add("b").rank.fair_tag, 0);
  second.Answer(absl::DeadlineExceededError("waiting"));
  EncodeJob& third = add("a");
  EXPECT_EQ(third.rank.fair_tag, 10);
  jobs.Begin(first, Clock::time_point());
  first.Answer(absl::DeadlineExceededError("running"));
  EXPECT_EQ(add("a").rank.fair_tag, 20);
  EXPECT_EQ(counter_.count(), 3);
  EXPECT_EQ(clients(), 2u);
  jobs.Begin(third, Clock::time_point());
  EXPECT_EQ(add("c").rank.fair_tag, 10);
  EXPECT_EQ(clients(), 3u);
  jobs.FailAll(absl::UnavailableError("broken"));
  jobs.RemoveDone([](std::unique_ptr<EncodeJob>) {});
  EXPECT_EQ(counter_.count(), 0);
  EXPECT_EQ(clients(), 0u);
}

TEST_F(JobTest, WhatWaitsWithoutHopeEndsWhileSomethingRuns) {
  const Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  ServiceRate rate;
  rate.AddAnswer(/*steps=*/10, /*seconds=*/1, now);
  const auto with_deadline = [&](double seconds, int64_t steps) {
    auto job = NewJob();
    job->deadline =
        now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    job->steps = steps;
    return job;
  };
  JobList<EncodeJob> jobs;
  jobs.Add(with_deadline(0.9, 10));
  EXPECT_EQ(jobs.EndOverdue(now, rate, /*may_give_up=*/false).hopeless, 0);
  EXPECT_EQ(sink_->num_answers, 0);
  const auto ends = jobs.EndOverdue(now, rate, /*may_give_up=*/true);
  EXPECT_EQ(ends.hopeless, 1);
  EXPECT_EQ(ends.cancelled, 0);
  EXPECT_EQ(sink_->num_answers, 1);
  EXPECT_EQ(sink_->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(counter_.count(), 0);
  // With time enough; one that has begun; one of which a beginning is of use.
  jobs.Add(with_deadline(1.1, 10));
  jobs.Add(with_deadline(0.5, 10));
  jobs.Begin(*jobs.jobs().back(), now);
  jobs.Add(with_deadline(0.5, 10));
  jobs.jobs().back()->may_be_cut = true;
  EXPECT_EQ(jobs.EndOverdue(now, rate, true).hopeless, 0);
  EXPECT_EQ(sink_->num_answers, 1);
}

TEST_F(JobTest, AStepTakesNoMoreThanTheDeadlinesLeaveForAllOfThem) {
  const Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  const ServiceRate rate;
  JobList<EncodeJob> jobs;
  const auto step_seconds = [&](Clock::time_point when) {
    return jobs.EndOverdue(when, rate, true).step_seconds;
  };
  const auto add = [&](int64_t steps, std::chrono::milliseconds deadline) {
    auto job = NewJob();
    job->rank.arrival = now;
    job->steps = steps;
    job->deadline = now + deadline;
    jobs.Add(std::move(job));
  };
  jobs.Add(NewJob());  // without a deadline
  EXPECT_TRUE(std::isinf(step_seconds(now)));
  add(10, std::chrono::milliseconds(6000));
  EXPECT_NEAR(step_seconds(now), 0.6, 1e-9);
  // However long it waits, and runs.
  EXPECT_NEAR(step_seconds(now + std::chrono::seconds(5)), 0.6, 1e-9);
  jobs.Begin(*jobs.jobs().back(), now);
  EXPECT_NEAR(step_seconds(now + std::chrono::seconds(5)), 0.6, 1e-9);
  // The one that leaves least of it counts.
  add(20, std::chrono::milliseconds(6000));
  add(1, std::chrono::milliseconds(5900));
  EXPECT_NEAR(step_seconds(now), 0.3, 1e-9);
}

}  // namespace
}  // namespace beamline::job_test
