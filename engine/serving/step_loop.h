// What the step loops of all models have in common: where their jobs come from, and how those end
// that get no answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/work_batch.h"
#include "engine/api/observer.h"
#include "engine/scheduling/job_list.h"
#include "engine/scheduling/job_snapshot.h"
#include "engine/serving/inbox.h"
#include "engine/serving/replica_fault.h"
#include "engine/serving/replica_stats.h"
#include "engine/transformer/transformer.h"
#include "kernels/cpu/return_pages.h"

namespace beamline {

// What a loop works with. All of it outlives the loop; the observer may be null.
struct LoopContext {
  const std::string& model;
  const DType dtype;  // what the model computes in
  Transformer& transformer;
  Backend& backend;
  ReplicaStats& stats;
  ReplicaFault& fault;
  EngineObserver* observer = nullptr;
};

// Everything but the inbox belongs to the thread that runs the loop.
template <typename JobType>
class StepLoop {
 public:
  // Jobs from any thread.
  Inbox<std::unique_ptr<JobType>>& inbox() { return inbox_; }

 protected:
  explicit StepLoop(const LoopContext& context)
      : context_(context),
        looks_again_(context.backend.Records() && std::thread::hardware_concurrency() > 1) {}
  ~StepLoop() = default;

  const LoopContext& context() const { return context_; }
  ReplicaStats& stats() { return context_.stats; }
  // Of the last Receive.
  size_t num_received() const { return received_.size(); }
  // When Receive last returned.
  Clock::time_point received_at() const { return received_at_; }

  // Adds what has come to `jobs`; with `wait`, sleeps until there is something, or the end. False
  // at the end. What sinks have posted since the last call is carried out or handed over before.
  bool Receive(bool wait, WorkBatch& posted, JobList<JobType>& jobs) {
    CarryOut(wait, posted);
    const Clock::time_point from = wait ? Clock::now() : Clock::time_point();
    const bool open =
        inbox_.Take(wait, received_, came_soon_ ? kLookTime : std::chrono::microseconds(0));
    received_at_ = Clock::now();
    if (wait) came_soon_ = looks_again_ && received_at_ - from < kLookTime;
    for (std::unique_ptr<JobType>& job : received_) jobs.Add(std::move(job));
    if (stats().snapshots.wanted()) stats().snapshots.Give(Snapshot(jobs));
    if (stats().memory_wanted.load(std::memory_order_relaxed)) {
      stats().memory_wanted = false;
      if (wait && jobs.empty()) ReturnMemory();
    }
    return open;
  }
  // Ends what is cancelled, overdue or, with `may_give_up`, hopeless. Returns what a step may
  // take for the sake of the deadlines, as JobList tells it.
  double EndOverdue(Clock::time_point now, JobList<JobType>& jobs, bool may_give_up) {
    const auto ends = jobs.EndOverdue(now, stats().service, may_give_up);
    stats().cancelled += static_cast<uint64_t>(ends.cancelled);
    stats().hopeless += static_cast<uint64_t>(ends.hopeless);
    return ends.step_seconds;
  }
  // So much of a job's cost needs no more computing.
  void CountServed(int64_t cost) { served_ += cost; }
  // A job has got its whole answer.
  void CountAnswer(JobType& job, Clock::time_point now) {
    const int64_t unneeded = job.work.Complete();
    served_ += unneeded;
    unneeded_ += unneeded;
    answered_cost_ += job.cost;
    ++answers_;
    stats().service.AddAnswer(
        job.steps, std::chrono::duration<double>(now - job.rank.arrival - job.queue_time).count(),
        now);
  }
  // A step began that left jobs waiting, or none.
  void SetLeftWaiting(bool left_waiting) { left_waiting_ = left_waiting; }
  // A step's error goes to every job. A device that failed for good closes the inbox: the loop
  // ends.
  void FailStep(const absl::Status& error, JobList<JobType>& jobs) {
    const absl::Status fault = context_.fault.Examine(context_.backend);
    if (!fault.ok()) inbox_.Close();
    jobs.FailAll(fault.ok() ? error : fault);
  }
  void Report(const StepReport& report, Clock::time_point now = Clock::now()) {
    ++stats().steps;
    const double seconds = std::chrono::duration<double>(report.duration).count();
    stats().rate.Add(report.num_tokens, seconds);
    stats().service.AddStep({.seconds = seconds,
                             .served = std::exchange(served_, 0),
                             .unneeded = std::exchange(unneeded_, 0),
                             .answers = std::exchange(answers_, 0),
                             .answered_cost = std::exchange(answered_cost_, 0),
                             .left_waiting = left_waiting_},
                            now);
    if (context_.observer != nullptr) context_.observer->OnStep(context_.model, report);
  }

 private:
  // REQUIRES: the device's memory is the host's, and nothing is computed.
  void ReturnMemory() {
    for (const auto& buffer : context_.transformer.activations()) {
      cpu::ReturnPages(buffer->data(), buffer->size());
    }
  }
  std::vector<JobSnapshot> Snapshot(const JobList<JobType>& jobs) const {
    std::vector<JobSnapshot> snapshots;
    for (const std::unique_ptr<JobType>& job : jobs.jobs()) {
      snapshots.push_back(beamline::Snapshot(*job, received_at_));
    }
    return snapshots;
  }

  // Who would sleep carries out what is posted instead, until a job comes; and so does who computes
  // so little that the time goes to answers, not to steps (docs/decisions/0086).
  void CarryOut(bool would_sleep, WorkBatch& posted) {
    const auto answers_take = kAnswerTime * static_cast<int64_t>(posted.num_brief());
    if (posted.num_brief() > 0 && Clock::now() - received_at_ < answers_take) {
      posted.RunWhile([] { return true; });
    } else if (would_sleep) {
      posted.RunWhile([this] { return !inbox_.HasSomething(); });
    } else {
      posted.HandOver();
    }
  }

  // How long a thread without work looks for some before it sleeps, where the last that it waited
  // for came within that time: waking it takes some 10 us. A vain look is followed by none until
  // work has come so soon again, so that an idle replica sleeps.
  static constexpr std::chrono::microseconds kLookTime{200};
  // What carrying out an answer takes, about.
  static constexpr std::chrono::microseconds kAnswerTime{10};

  const LoopContext context_;
  // Beside a GPU, whose steps are short beside a wake-up; not on one core.
  const bool looks_again_;
  bool came_soon_ = false;
  Inbox<std::unique_ptr<JobType>> inbox_;
  std::vector<std::unique_ptr<JobType>> received_;
  Clock::time_point received_at_;

  // Of the step whose results are being read.
  int64_t served_ = 0;
  int64_t unneeded_ = 0;
  int64_t answered_cost_ = 0;
  int32_t answers_ = 0;
  bool left_waiting_ = false;
};

}  // namespace beamline
