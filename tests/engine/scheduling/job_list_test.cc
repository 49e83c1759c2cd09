// Which jobs a list ends, keeps apart and forgets, and how few of those that wait it looks at.
#include "engine/scheduling/job_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/scheduling/job_fixture.h"
#include "tests/test_seed.h"

namespace beamline::job_list_test {
namespace {

using JobListTest = JobTest;

TEST_F(JobListTest, AListEndsWhatIsCancelledOrOverdueAndForgetsWhatIsDone) {
  const Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  const ServiceRate rate;
  JobList<EncodeJob> jobs;
  jobs.Add(NewJob());
  const std::shared_ptr<Cancellation> cancellation = jobs.jobs()[0]->cancellation;
  for (const auto left : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(1)}) {
    auto job = NewJob();
    job->deadline = now + left;
    jobs.Add(std::move(job));
  }
  EXPECT_EQ(jobs.EndOverdue(now, rate, true).cancelled, 0);
  EXPECT_EQ(sink_->status.code(), absl::StatusCode::kDeadlineExceeded);
  cancellation->Cancel();
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

TEST_F(JobListTest, AListKeepsThoseThatHaveBegunApart) {
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
TEST_F(JobListTest, WhatEndsWaitingIsNotOwed) {
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

TEST_F(JobListTest, WhatWaitsWithoutHopeEndsWhileSomethingRuns) {
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
  auto to_be_cut = with_deadline(0.5, 10);
  to_be_cut->may_be_cut = true;
  jobs.Add(std::move(to_be_cut));
  EXPECT_EQ(jobs.EndOverdue(now, rate, true).hopeless, 0);
  EXPECT_EQ(sink_->num_answers, 1);
}

// Whenever they are cancelled: before they come, while they wait, and running.
TEST_F(JobListTest, AnyThreadCancels) {
  constexpr int kJobs = 300;
  const Clock::time_point now;
  const ServiceRate rate;
  JobList<EncodeJob> jobs;
  std::vector<std::shared_ptr<Cancellation>> cancellations;
  std::vector<std::unique_ptr<EncodeJob>> coming;
  for (int i = 0; i < kJobs; ++i) {
    coming.push_back(NewJob());
    cancellations.push_back(coming.back()->cancellation);
  }
  std::thread canceller([&] {
    for (const auto& cancellation : cancellations) {
      cancellation->Cancel();
      cancellation->Cancel();
    }
  });
  std::mt19937_64 random(TestSeed());
  int cancelled = 0;
  const auto step = [&] {
    cancelled += jobs.EndOverdue(now, rate, true).cancelled;
    jobs.RemoveDone([](std::unique_ptr<EncodeJob>) {});
  };
  for (auto& job : coming) {
    jobs.Add(std::move(job));
    if (random() % 2 == 0) jobs.Begin(*jobs.jobs().back(), now);
    if (random() % 4 == 0) step();
  }
  canceller.join();
  step();
  EXPECT_EQ(cancelled, kJobs);
  EXPECT_EQ(sink_->num_answers, kJobs);
  EXPECT_TRUE(jobs.empty());
  EXPECT_EQ(counter_.count(), 0);
}

// A request that is begun again has its cancellation with it.
TEST_F(JobListTest, TheListThatHasItNowIsTold) {
  const Clock::time_point now;
  const ServiceRate rate;
  JobList<EncodeJob> now_here;
  std::shared_ptr<Cancellation> cancellation;
  {
    JobList<EncodeJob> before;
    before.Add(NewJob());
    cancellation = before.jobs()[0]->cancellation;
    before.FailAll(absl::UnavailableError("broken"));
    auto again = NewJob();
    again->cancellation = cancellation;
    now_here.Add(std::move(again));
    before.RemoveDone([](std::unique_ptr<EncodeJob>) {});
  }
  cancellation->Cancel();
  EXPECT_EQ(now_here.EndOverdue(now, rate, true).cancelled, 1);
}

// Deadlines, steps and cancellations at random, beside looking at each of those that wait.
TEST_F(JobListTest, EndsThoseThatLookingAtAllWould) {
  std::mt19937_64 random(TestSeed());
  const auto below = [&](uint64_t bound) { return static_cast<int64_t>(random() % bound); };
  Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  ServiceRate rate;
  JobList<EncodeJob> jobs;
  for (int round = 0; round < 2000; ++round) {
    for (int64_t i = below(8); i > 0; --i) {
      auto job = NewJob();
      job->rank.arrival = now;
      job->steps = 1 + below(2) * below(200);
      job->may_be_cut = below(4) == 0;
      if (below(5) > 0) job->deadline = now + std::chrono::milliseconds(below(3000) - 50);
      jobs.Add(std::move(job));
    }
    if (below(3) == 0) {
      rate.AddAnswer(1 + below(20), 1e-3 * static_cast<double>(below(100)), now);
    }
    if (!jobs.empty() && below(2) == 0)
      jobs.Begin(*jobs.jobs()[random() % jobs.jobs().size()], now);
    std::set<const EncodeJob*> expected;
    JobList<EncodeJob>::Ends ends;
    const bool may_give_up = below(3) > 0;
    for (const auto& job : jobs.jobs()) {
      if (below(100) == 0) job->cancellation->Cancel();
      const double left = job->deadline.has_value()
                              ? std::chrono::duration<double>(*job->deadline - now).count()
                              : 1e9;
      const double needed = rate.SecondsFor(1, now) * static_cast<double>(job->steps_to_use());
      const bool is_cancelled = job->cancellation->is_cancelled();
      const bool is_hopeless =
          !is_cancelled && left > 0 && may_give_up && !job->begun() && left < needed;
      ends.cancelled += is_cancelled ? 1 : 0;
      ends.hopeless += is_hopeless ? 1 : 0;
      if (is_cancelled || is_hopeless || left <= 0) {
        expected.insert(job.get());
      } else if (job->deadline.has_value()) {
        ends.step_seconds = std::min(ends.step_seconds, SecondsOfStep(*job));
      }
    }
    const auto found = jobs.EndOverdue(now, rate, may_give_up);
    ASSERT_EQ(found.cancelled, ends.cancelled) << round;
    ASSERT_EQ(found.hopeless, ends.hopeless) << round;
    ASSERT_EQ(found.step_seconds, ends.step_seconds) << round;
    std::set<const EncodeJob*> removed;
    jobs.RemoveDone([&](std::unique_ptr<EncodeJob> job) { removed.insert(job.get()); });
    ASSERT_EQ(removed, expected) << round;
    now += std::chrono::milliseconds(below(100));
  }
}

TEST_F(JobListTest, OfThousandsThatWaitAFewAreLookedAt) {
  constexpr int kJobs = 4096;
  const Clock::time_point start = Clock::time_point() + std::chrono::hours(1);
  ServiceRate rate;
  JobList<EncodeJob> jobs;
  // 4 s for each, which come within 3 s.
  const auto come = [&](int i) { return start + std::chrono::microseconds(732) * i; };
  for (int i = 0; i < kJobs; ++i) {
    auto job = NewJob();
    job->rank.arrival = come(i);
    job->deadline = come(i) + std::chrono::seconds(4);
    job->steps = 8 + i % 49;
    jobs.Add(std::move(job));
  }
  const Clock::time_point now = start + std::chrono::milliseconds(3800);
  rate.AddAnswer(/*steps=*/30, /*seconds=*/0.15, now);
  // Those that are due are gone with the first look; a step later some more of them are.
  jobs.EndOverdue(now, rate, /*may_give_up=*/true);
  jobs.RemoveDone([](std::unique_ptr<EncodeJob>) {});
  EXPECT_GT(jobs.jobs().size(), size_t{kJobs} * 9 / 10);
  const size_t before = jobs.jobs().size();
  const auto ends = jobs.EndOverdue(now + std::chrono::milliseconds(8), rate, true);
  jobs.RemoveDone([](std::unique_ptr<EncodeJob>) {});
  EXPECT_LE(ends.looked_at, 150);
  EXPECT_EQ(before - jobs.jobs().size(), static_cast<size_t>(ends.hopeless));
  EXPECT_GE(ends.hopeless, 1);
}

TEST_F(JobListTest, AStepTakesNoMoreThanTheDeadlinesLeaveForAllOfThem) {
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
}  // namespace beamline::job_list_test
