// The jobs of a replica that have no answer yet.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/request.h"
#include "engine/scheduling/job.h"
#include "engine/scheduling/service_rate.h"

namespace beamline {

// JobType: a Job with used_tokens(), so far, and Expire(now), which answers what is overdue.
template <typename JobType>
class JobList {
 public:
  void Add(std::unique_ptr<JobType> job) {
    job->rank.fair_tag = job->waiting.fair_tag();
    job->place = jobs_.size();
    jobs_.push_back(std::move(job));
  }
  // The job, or a part of it, is in a step.
  void Begin(JobType& job, Clock::time_point now) {
    const bool is_first = !job.begun();
    job.Begin(now);
    if (is_first) Swap(job.place, num_begun_++);
  }
  // Without an answer.
  void Drop(JobType& job) {
    job.done = true;
    if (!job.begun()) waiting_are_done_ = true;
  }
  // What EndOverdue found.
  struct Ends {
    int32_t cancelled = 0;
    int32_t hopeless = 0;
    // Of a request's whole time, what there is for each of its steps: of the request that has the
    // least. Infinite: no request has a deadline.
    double step_seconds = std::numeric_limits<double>::infinity();
  };
  // Answers the jobs that their clients have cancelled, those that are overdue and, with
  // `may_give_up`, those that have not begun and would be overdue before they were answered, as the
  // answers take that `rate` knows.
  Ends EndOverdue(Clock::time_point now, const ServiceRate& rate, bool may_give_up) {
    Ends ends;
    const double per_step = rate.SecondsFor(1, now);
    for (const auto& job : jobs_) {
      if (job->done) continue;
      if (job->cancelled->load(std::memory_order_relaxed)) {
        ++ends.cancelled;
        job->Answer(
            WithUsedTokens(absl::CancelledError("cancelled by the client"), job->used_tokens()));
        waiting_are_done_ |= !job->begun();
      } else if (job->deadline.has_value()) {
        const double left = std::chrono::duration<double>(*job->deadline - now).count();
        const double needed = per_step * static_cast<double>(job->steps_to_use());
        if (left <= 0) {
          job->Expire(now);
          waiting_are_done_ |= !job->begun();
        } else if (may_give_up && !job->begun() && left < needed) {
          ++ends.hopeless;
          job->Answer(HopelessError());
          waiting_are_done_ = true;
        } else {
          // By the whole deadline, not by what is left: that swings with the queue, and the width
          // that follows it with its steps' time.
          const double whole =
              std::chrono::duration<double>(*job->deadline - job->rank.arrival).count();
          ends.step_seconds = std::min(ends.step_seconds, whole / static_cast<double>(job->steps));
        }
      }
    }
    return ends;
  }
  void FailAll(const absl::Status& status) {
    for (const auto& job : jobs_) job->Answer(status);
    waiting_are_done_ = true;
  }
  // Gives those that are done to `take`. Those that have not begun are looked at only after this
  // list has ended one of them.
  template <typename Take>
  void RemoveDone(const Take& take) {
    for (size_t i = num_begun_; i > 0; --i) {
      if (!jobs_[i - 1]->done) continue;
      Swap(i - 1, --num_begun_);
      Remove(num_begun_, take);
    }
    if (!std::exchange(waiting_are_done_, false)) return;
    for (size_t i = jobs_.size(); i > num_begun_; --i) {
      if (jobs_[i - 1]->done) Remove(i - 1, take);
    }
  }

  // Those that have begun, and behind them those that have not.
  std::span<const std::unique_ptr<JobType>> jobs() const { return jobs_; }
  std::span<const std::unique_ptr<JobType>> begun() const { return jobs().first(num_begun_); }
  std::span<const std::unique_ptr<JobType>> waiting() const { return jobs().subspan(num_begun_); }
  bool empty() const { return jobs_.empty(); }

 private:
  void Swap(size_t a, size_t b) {
    std::swap(jobs_[a], jobs_[b]);
    jobs_[a]->place = a;
    jobs_[b]->place = b;
  }
  // The last one takes the place.
  template <typename Take>
  void Remove(size_t place, const Take& take) {
    Swap(place, jobs_.size() - 1);
    take(std::move(jobs_.back()));
    jobs_.pop_back();
  }

  // Thousands may wait while a few hundred run, and steps take some milliseconds: what a step does
  // for each of those that wait is little.
  std::vector<std::unique_ptr<JobType>> jobs_;
  size_t num_begun_ = 0;
  bool waiting_are_done_ = false;  // some of those that have not begun may be
};

}  // namespace beamline
