// The jobs of a replica that have no answer yet, and the fair queue of their clients.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/request.h"
#include "engine/scheduling/fair_queue.h"
#include "engine/scheduling/job.h"
#include "engine/scheduling/service_rate.h"

namespace beamline {

// JobType: a Job with Expire(now), which answers it when its deadline has passed.
template <typename JobType>
class JobList {
 public:
  void Add(std::unique_ptr<JobType> job) {
    job->rank.fair_tag = fair_queue_.Enter(job->client, job->cost);
    jobs_.push_back(std::move(job));
  }
  // The job, or a part of it, is in a step.
  void Begin(JobType& job, Clock::time_point now) {
    fair_queue_.Begin(job.rank.fair_tag);
    job.Begin(now);
  }
  // What EndOverdue found.
  struct Ends {
    int32_t cancelled = 0;
    int32_t hopeless = 0;
    // Some deadline is so near that it matters how long a step takes.
    bool deadlines_press = false;
  };
  // Answers the jobs that their clients have cancelled, those that are overdue and, with
  // `may_give_up`, those that have not begun and would be overdue before they were answered, as the
  // answers take that `rate` knows. `step_seconds`: of a step of all that could run; 0: not known.
  Ends EndOverdue(Clock::time_point now, const ServiceRate& rate, bool may_give_up,
                  double step_seconds = 0) {
    Ends ends;
    const double per_step = rate.SecondsFor(1, now);
    for (const auto& job : jobs_) {
      if (job->done) continue;
      if (job->cancelled->load(std::memory_order_relaxed)) {
        ++ends.cancelled;
        job->Answer(absl::CancelledError("cancelled by the client"));
      } else if (job->deadline.has_value()) {
        const double left = std::chrono::duration<double>(*job->deadline - now).count();
        const double needed = per_step * static_cast<double>(job->steps_to_use());
        if (left <= 0) {
          job->Expire(now);
        } else if (may_give_up && !job->begun() && left < needed) {
          ++ends.hopeless;
          job->Answer(HopelessError());
        } else {
          const double rest = job->begun() ? job->work.left() : 1.0;
          ends.deadlines_press |=
              left < kPressing * rest * static_cast<double>(job->steps) * step_seconds;
        }
      }
    }
    return ends;
  }
  // A deadline presses that leaves less than so many times the steps that its request may still
  // take.
  static constexpr double kPressing = 2;
  void FailAll(const absl::Status& status) {
    for (const auto& job : jobs_) job->Answer(status);
  }
  // Gives those that are done to `take`, in their order.
  template <typename Take>
  void RemoveDone(const Take& take) {
    size_t kept = 0;
    for (std::unique_ptr<JobType>& job : jobs_) {
      if (job->done) {
        fair_queue_.Leave(job->client);
        take(std::move(job));
      } else {
        jobs_[kept++] = std::move(job);
      }
    }
    jobs_.resize(kept);
  }

  // In the order of arrival, until somebody sorts them.
  std::span<std::unique_ptr<JobType>> jobs() { return jobs_; }
  std::span<const std::unique_ptr<JobType>> jobs() const { return jobs_; }
  bool empty() const { return jobs_.empty(); }
  size_t num_clients() const { return fair_queue_.num_accounts(); }

 private:
  FairQueue fair_queue_;
  std::vector<std::unique_ptr<JobType>> jobs_;
};

}  // namespace beamline
