// The step loop of a model that generates: receive, plan, compute, select, advance.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "engine/scheduling/group.h"
#include "engine/scheduling/inbox.h"
#include "engine/scheduling/replica_stats.h"
#include "engine/scheduling/scheduler.h"
#include "engine/scheduling/selector.h"
#include "engine/transformer/transformer.h"

namespace beamline {

struct GenerateLoopOptions {
  std::string model;
  PlannerLimits limits;
  int32_t num_blocks = 0;
  bool share_prefixes = true;  // of prompts, between requests
};

// Everything but the inbox, the stats and Stop belongs to the thread that calls Run.
class GenerateLoop {
 public:
  // The transformer, the backend, the stats and the observer (may be null) outlive the loop.
  GenerateLoop(const GenerateLoopOptions& options, Transformer& transformer, Backend& backend,
               ReplicaStats& stats, EngineObserver* observer);

  // Groups to generate, whose decoder has one row of at least one token; any thread.
  Inbox<std::unique_ptr<Group>>& inbox() { return inbox_; }
  // Runs until the inbox is closed; groups still there get CANCELLED.
  void Run();

 private:
  void Receive();
  void EndOverdue(Clock::time_point now);
  absl::Status Compute();
  void Advance();
  void AdvanceGroup(Group& group, std::span<const RowResult> results);
  void SendDeltas(Group& group);
  void Finish(Group& group);
  void Fail(Group& group, const absl::Status& status);
  void RemoveFinished();
  void CountStep();
  void Report(Clock::time_point started);

  GenerateLoopOptions options_;
  Transformer& transformer_;
  Backend& backend_;
  ReplicaStats& stats_;
  EngineObserver* observer_;

  Inbox<std::unique_ptr<Group>> inbox_;
  std::vector<std::unique_ptr<Group>> received_;
  bool open_ = true;

  Scheduler scheduler_;
  Selector selector_;
  std::vector<const RowRequest*> requests_;  // of the current step
};

}  // namespace beamline
