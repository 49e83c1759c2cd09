// The step loop of a model that generates: receive, plan, launch, and, one step later, read and
// advance.
//
// While a device computes a step, the next one is planned and launched on the assumption that every
// sequence goes on; its new tokens are taken on the device (StepBatch::fills). When the results are
// read, the rows whose sequences have ended are dropped, and what the step behind computed for them
// is not looked at. A step whose results decide what comes next (edits that depend on the tokens)
// is read first, and so is one that is done when the host is ready to plan, where the device itself
// is the host (the CPU): another device that is done waits for its next step.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "engine/runahead/flight.h"
#include "engine/runahead/selector.h"
#include "engine/scheduling/group.h"
#include "engine/scheduling/scheduler.h"
#include "engine/serving/step_loop.h"

namespace beamline {

struct GenerateLoopOptions {
  PlannerLimits limits;
  int32_t num_blocks = 0;
  bool share_prefixes = true;  // of prompts, between requests
};

// Groups have a decoder with one row of at least one token.
class GenerateLoop : public StepLoop<Group> {
 public:
  GenerateLoop(const GenerateLoopOptions& options, const LoopContext& context);

  // Runs until the inbox is closed; groups still there get CANCELLED. When the device fails, closes
  // the inbox; they get the fault then.
  void Run();

 private:
  struct LaunchedStep {
    Flight flight;
    Selector* selector = nullptr;
    Clock::time_point started;
    StepReport report;
  };

  void CountStep();
  // Plans and launches; nullopt when there is nothing to compute or it failed. `earlier`: the step
  // whose results are assumed.
  std::optional<LaunchedStep> Launch(Clock::time_point now,
                                     const std::optional<LaunchedStep>& earlier);
  absl::Status Compute(LaunchedStep& step, const std::optional<LaunchedStep>& earlier);
  // False: the last step's results must be read before the next one is planned.
  bool RunAhead();
  // Waits for the results and advances the groups. `next`: the step launched behind it, or null.
  void Land(LaunchedStep& step, Flight* next);
  void LandLast();
  // range: of the step, the group's.
  void AdvanceGroup(LaunchedStep& step, size_t range, Flight* next);
  void FailStep(const absl::Status& error);
  void RemoveFinished();
  StepReport DescribeStep() const;
  void ReportLanding(LaunchedStep& step);

  Scheduler scheduler_;
  std::array<Selector, 2> selectors_;
  int next_selector_ = 0;
  std::optional<LaunchedStep> last_;  // launched and not read
  Clock::time_point last_landing_;

  // Kept for their memory.
  std::vector<const RowRequest*> requests_;
  std::vector<BeamSearch> searches_;
  std::vector<RowResult> live_results_;
};

}  // namespace beamline
