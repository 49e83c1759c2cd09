// The jobs of a replica that have no answer yet, and the fair queue of their clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/request.h"
#include "engine/scheduling/fair_queue.h"

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
  // Answers the jobs that their clients have cancelled, and those that are overdue. Returns how
  // many were cancelled.
  int32_t EndOverdue(Clock::time_point now) {
    int32_t num_cancelled = 0;
    for (const auto& job : jobs_) {
      if (job->done) continue;
      if (job->cancelled->load(std::memory_order_relaxed)) {
        ++num_cancelled;
        job->Answer(absl::CancelledError("cancelled by the client"));
      } else if (job->deadline.has_value() && *job->deadline <= now) {
        job->Expire(now);
      }
    }
    return num_cancelled;
  }
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
