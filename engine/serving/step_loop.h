// What the step loops of all models have in common: where their jobs come from, and how those end
// that get no answer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/observer.h"
#include "engine/scheduling/job_list.h"
#include "engine/serving/inbox.h"
#include "engine/serving/replica_fault.h"
#include "engine/serving/replica_stats.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// What a loop works with. All of it outlives the loop; the observer may be null.
struct LoopContext {
  const std::string& model;
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
  explicit StepLoop(const LoopContext& context) : context_(context) {}
  ~StepLoop() = default;

  const LoopContext& context() const { return context_; }
  ReplicaStats& stats() { return context_.stats; }

  // Adds what has come to `jobs`; with `wait`, sleeps until there is something, or the end. False
  // at the end.
  bool Receive(bool wait, JobList<JobType>& jobs) {
    const bool open = inbox_.Take(wait, received_);
    for (std::unique_ptr<JobType>& job : received_) jobs.Add(std::move(job));
    return open;
  }
  void EndOverdue(Clock::time_point now, JobList<JobType>& jobs) {
    stats().cancelled += jobs.EndOverdue(now);
  }
  // A step's error goes to every job. A device that failed for good closes the inbox: the loop
  // ends.
  void FailStep(const absl::Status& error, JobList<JobType>& jobs) {
    const absl::Status fault = context_.fault.Examine(context_.backend);
    if (!fault.ok()) inbox_.Close();
    jobs.FailAll(fault.ok() ? error : fault);
  }
  void Report(const StepReport& report) {
    ++stats().steps;
    stats().rate.Add(report.num_tokens, std::chrono::duration<double>(report.duration).count());
    if (context_.observer != nullptr) context_.observer->OnStep(context_.model, report);
  }

 private:
  const LoopContext context_;
  Inbox<std::unique_ptr<JobType>> inbox_;
  std::vector<std::unique_ptr<JobType>> received_;
};

}  // namespace beamline
