// The jobs of a replica that have no answer yet. Thousands may wait while a few hundred run, and
// steps take some milliseconds: of those that wait a step follows pointers only to the few that
// something is to be done about.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "engine/api/request.h"
#include "engine/scheduling/cancellation.h"
#include "engine/scheduling/client_firsts.h"
#include "engine/scheduling/job.h"
#include "engine/scheduling/service_rate.h"
#include "engine/scheduling/waiting_deadlines.h"
#include "engine/scheduling/waiting_list.h"

namespace beamline {

// JobType: a Job with used_tokens() and with Expire(now), which answers an overdue job. Its rank,
// deadline, steps, cancellation and client must not change while it waits in the list.
template <typename JobType>
class JobList {
 public:
  void Add(std::unique_ptr<JobType> job) {
    job->rank.fair_tag = job->waiting.fair_tag();
    job->place = jobs_.size();
    ++clients_[job->client];
    turns_.Add(*job);
    firsts_.Add(*job);
    deadlines_.Add(*job);
    if (job->cancellation != nullptr) {
      by_cancellation_[job->cancellation.get()] = job.get();
      job->cancellation->Tell(cancelled_list_);
    }
    jobs_.push_back(std::move(job));
  }
  // The job, or a part of it, is in a step.
  void Begin(JobType& job, Clock::time_point now) {
    job.Begin(now);
    PutToBegun(job);
  }
  // Moves a job that has begun out of the waiting ones.
  void PutToBegun(JobType& job) {
    if (job.place < num_begun_) return;
    StopWaiting(job);
    Swap(job.place, num_begun_++);
  }
  // Removes the job without an answer.
  void Drop(JobType& job) {
    job.done = true;
    if (StopWaiting(job)) ended_.push_back(&job);
  }
  // Result of EndOverdue.
  struct Ends {
    int32_t cancelled = 0;
    int32_t hopeless = 0;
    // Minimum of SecondsOfStep over the jobs. Infinite: no job has a deadline.
    double step_seconds = std::numeric_limits<double>::infinity();
    int64_t looked_at = 0;  // number of jobs examined
  };
  // Answers cancelled jobs and overdue jobs. With `may_give_up`, also waiting jobs that would be
  // overdue before their answer, at the speed measured in `rate`.
  Ends EndOverdue(Clock::time_point now, const ServiceRate& rate, bool may_give_up) {
    Ends ends;
    for (const auto& job : begun()) EndBegun(*job, now, ends);
    cancelled_list_->Take(cancelled_);
    for (const Cancellation* cancellation : cancelled_) {
      const auto found = by_cancellation_.find(cancellation);
      // Otherwise it has begun or ended, and another job may use the same address now.
      if (found == by_cancellation_.end()) continue;
      JobType& job = *found->second;
      if (!job.cancellation->is_cancelled()) continue;
      ++ends.looked_at;
      ++ends.cancelled;
      AnswerCancelled(job);
      Drop(job);
    }
    due_.clear();
    ends.looked_at += deadlines_.FindDue(now, may_give_up ? rate.SecondsFor(1, now) : 0, due_);
    for (JobType* job : due_) {
      if (*job->deadline <= now) {
        job->Expire(now);
      } else {
        ++ends.hopeless;
        job->Answer(HopelessError());
      }
      Drop(*job);
    }
    ends.step_seconds = std::min(ends.step_seconds, deadlines_.step_seconds());
    return ends;
  }
  void FailAll(const absl::Status& status) {
    for (const auto& job : jobs_) {
      job->Answer(status);
      if (StopWaiting(*job)) ended_.push_back(job.get());
    }
  }
  // Passes the finished jobs to `take`. Waiting jobs are examined only if this list has ended them.
  template <typename Take>
  void RemoveDone(const Take& take) {
    for (size_t i = num_begun_; i > 0; --i) {
      if (!jobs_[i - 1]->done) continue;
      Swap(i - 1, --num_begun_);
      Remove(num_begun_, take);
    }
    for (const JobType* job : ended_) Remove(job->place, take);
    ended_.clear();
  }

  // All jobs: first those that have begun, then those that wait.
  std::span<const std::unique_ptr<JobType>> jobs() const { return jobs_; }
  std::span<const std::unique_ptr<JobType>> begun() const { return jobs().first(num_begun_); }
  std::span<const std::unique_ptr<JobType>> waiting() const { return jobs().subspan(num_begun_); }
  bool empty() const { return jobs_.empty(); }
  // Of those that have not begun.
  const WaitingList<JobType>& turns() const { return turns_; }
  const ClientFirsts<JobType>& firsts() const { return firsts_; }
  // Number of jobs of each client that has any.
  const absl::flat_hash_map<std::string, int64_t>& clients() const { return clients_; }

 private:
  void EndBegun(JobType& job, Clock::time_point now, Ends& ends) {
    if (job.done) return;
    ++ends.looked_at;
    if (job.cancellation != nullptr && job.cancellation->is_cancelled()) {
      ++ends.cancelled;
      AnswerCancelled(job);
    } else if (job.deadline.has_value()) {
      if (*job.deadline <= now) {
        job.Expire(now);
      } else {
        ends.step_seconds = std::min(ends.step_seconds, SecondsOfStep(job));
      }
    }
  }
  static void AnswerCancelled(JobType& job) {
    job.Answer(WithUsedTokens(absl::CancelledError("cancelled by the client"), job.used_tokens()));
  }
  // False: the job was not waiting any more.
  bool StopWaiting(JobType& job) {
    if (!turns_.Remove(job)) return false;
    firsts_.Remove(job);
    deadlines_.Remove(job);
    const auto found = by_cancellation_.find(job.cancellation.get());
    if (found != by_cancellation_.end() && found->second == &job) by_cancellation_.erase(found);
    return true;
  }
  void Swap(size_t a, size_t b) {
    std::swap(jobs_[a], jobs_[b]);
    jobs_[a]->place = a;
    jobs_[b]->place = b;
  }
  // Moves the last job to the index that becomes free.
  template <typename Take>
  void Remove(size_t place, const Take& take) {
    Swap(place, jobs_.size() - 1);
    const auto client = clients_.find(jobs_.back()->client);
    if (--client->second == 0) clients_.erase(client);
    take(std::move(jobs_.back()));
    jobs_.pop_back();
  }

  std::vector<std::unique_ptr<JobType>> jobs_;
  size_t num_begun_ = 0;
  std::vector<const JobType*> ended_;  // finished before they began
  absl::flat_hash_map<std::string, int64_t> clients_;

  // Of those that have not begun and are not done.
  WaitingList<JobType> turns_;
  ClientFirsts<JobType> firsts_;
  WaitingDeadlines<JobType> deadlines_;
  absl::flat_hash_map<const Cancellation*, JobType*> by_cancellation_;
  const std::shared_ptr<CancelledList> cancelled_list_ = std::make_shared<CancelledList>();

  // Scratch of EndOverdue; kept to reuse memory.
  std::vector<const Cancellation*> cancelled_;
  std::vector<JobType*> due_;
};

}  // namespace beamline
