// The steps between their launch and the reading of their results, and every assumption about them.
//
// While a device computes a step, the next one is planned and launched on the assumption that every
// sequence goes on: the groups get rows whose last tokens are unknown, and the device takes those
// tokens, and the order of a search's beams, out of its own results (DeviceEdits). When the results
// are read, the rows whose sequences have ended are dropped, and what the step behind computed for
// them is not looked at. A step whose results decide what comes next (edits that depend on the
// tokens) is read first.
//
// Where the running groups are divided into lanes (StepLimits::num_lanes), each lane has a step
// under way at a time, and nothing is assumed: what keeps the device busy while one is read are the
// others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/api/observer.h"
#include "engine/runahead/device_step.h"
#include "engine/scheduling/scheduler.h"

namespace beamline {

class Pipeline {
 public:
  static constexpr size_t kMostEnded = 1024;

  // What a group makes of its results: its next rows, as its decoder has them; nullopt: they are no
  // results. Uses nothing but the group, since groups are asked beside each other (Parallel).
  using Decode = absl::FunctionRef<std::optional<std::span<const Continuation>>(
      Group& group, std::span<const RowResult> results)>;
  // Where a group stands after its results.
  struct Progress {
    bool decoded = false;  // whether Decode knew them; if not, there is nothing else to tell
    bool finished = false;
    int32_t num_generated_tokens = 0;
    int64_t num_computed_tokens = 0;
  };
  // A row that was assumed and has come true.
  struct LandedRow {
    int32_t assumed = 0;  // its number among those that were assumed
    int32_t parent = 0;
    int32_t token = 0;
  };
  // Is told of every group. In turn, on the caller's thread, which does not ask the decoder what is
  // told: another thread's cache has it. Its rows are not looked at when the group is done then.
  using Advance = absl::FunctionRef<void(Group& group, const Progress& progress)>;
  using DeviceSteps = std::vector<std::unique_ptr<DeviceStep>>;

  using Parallel = ParallelRanges;

  // The scheduler outlives the pipeline. device_steps: two for one lane, else one for each.
  // parallel: who computes what each group makes of its results; null: the caller.
  Pipeline(DeviceSteps device_steps, Scheduler& scheduler, Parallel parallel = nullptr);

  bool empty() const { return steps_.empty(); }
  // Whether the results of the earliest step under way are there to be read.
  bool EarliestIsDone() { return !empty() && steps_.front().device->Done(); }
  // After Launch: whether the earliest step must land before the next Launch. There are as many as
  // can be, or nothing else is to be computed.
  bool MustLand() const { return !empty() && (idle_ || steps_.size() == device_steps_.size()); }

  // Before Launch: false when the last step's results decide what the next one is, so that it must
  // land first. Else the groups have the rows now that its results will most likely give them. Of
  // several lanes there is nothing to prepare.
  bool PrepareLaunch();
  // Plans a step, of the next lane that has none under way, and gives it to the device. False when
  // there is nothing to compute. REQUIRES: there are not as many under way as can be.
  absl::StatusOr<bool> Launch(Clock::time_point now);
  // Waits for the results of the earliest step under way, hands them to the groups that are not
  // done, and gives these their next rows. An error is the step's. REQUIRES: !empty().
  absl::StatusOr<StepReport> Land(Decode decode, Advance advance);
  // Lets go of the groups that are done, as soon as no step refers to them. Their memory is kept
  // until FreeEnded.
  void RemoveDone();
  // Frees groups that were let go of, one after the other while `may_go_on` says so, and at once
  // those beyond kMostEnded: hundreds that end together take milliseconds, in which the device
  // would wait.
  void FreeEnded(absl::FunctionRef<bool()> may_go_on);

 private:
  // What was assumed of a group, for the time from planning the next step to landing this one.
  struct Assumption {
    std::span<const AssumedRow> rows;   // the decoder's; empty: the group ends with this step
    std::optional<BeamRequest> search;  // the decoder's
    BeamWords beams;                    // of a search
    // The rows stand for the rows of the same numbers, but each may turn out to descend from any of
    // them: they have that row's blocks and tokens until it is known.
    bool parents_unknown = false;
  };

  // What a group has made of its results, and what of it the caller's thread needs.
  struct Decoded {
    std::span<const Continuation> rows;  // the decoder's
    Progress progress;
    bool device_agrees = true;  // it went on with the beams that the decoder says
    bool continued = false;     // it has its next rows
  };

  // What one thread works with when groups go on.
  struct Workspace {
    GroupCache::Workspace cache;
    size_t found = 0;  // Step::FindRange
    std::vector<RowResult> some_results;
    std::vector<Continuation> forks;
    std::vector<LandedRow> landed;
    std::vector<KnownRow> known_rows;
    std::vector<int32_t> parents;
  };

  // A step under way. "Of each range": entry i of the vector is that of ranges[i]'s group.
  struct Step {
    std::vector<LogitsRange> ranges;
    std::vector<int32_t> searches;  // of each range, its number among the step's; -1: no search
    // Of each range, the rows that the step before left alive; nullopt: all.
    std::vector<std::optional<std::vector<int32_t>>> live_rows;
    std::vector<Assumption> assumptions;  // of each range, once its results are assumed; or none
    // Groups that ended while this was the last step launched: it may still refer to them.
    std::vector<std::unique_ptr<Group>> ended;
    DeviceStep* device = nullptr;
    int32_t lane = 0;
    Clock::time_point started;
    StepReport report;

    // The group's range. Quick when groups are asked for in the order of the ranges: `found` is
    // where the last one was.
    std::optional<size_t> FindRange(const Group& group, size_t& found) const;
    // The row's number when the step was launched.
    int32_t LaunchedRow(size_t range, int32_t row) const;
  };

  void LetGo(std::vector<std::unique_ptr<Group>>& groups);
  // The group gets the rows that are assumed of it.
  void AssumeRows(Step& step, size_t range, Workspace& workspace);
  // Whether AssumeRows may be called beside others: it takes no block that another group has.
  bool MayAssumeApart(const Group& group, std::span<const AssumedRow> rows) const;
  // Where the device leaves the token of a group's row that is assumed of its results.
  static int32_t TokenWord(const Step& step, size_t range, int32_t row);
  // The step that the one being launched goes on from; null: none.
  Step* StepBefore() { return num_lanes() > 1 || empty() ? nullptr : &steps_.back(); }
  // What is assumed of a group by StepBefore(); null: nothing.
  const Assumption* AssumptionOf(const Group& group, size_t& found);
  int32_t num_lanes() const { return scheduler_.num_lanes(); }
  // Plans a step of the next lane that has something to compute; nullopt: none has.
  std::optional<int32_t> PrepareStep(Clock::time_point now);
  Step Describe(Clock::time_point now) const;
  void WriteEdits();
  void AddBeamTables(const UnknownToken& first, const Assumption& assumption);
  void CollectRequests(Step& step);
  void AppendSearch(const LogitsRange& range, const Assumption* assumption, Step& step,
                    size_t index);
  // What each group that is not done makes of its results, to decoded_. Those that are apart go on.
  void DecodeAll(const Step& step, Decode decode);
  void FreeAll();
  // The results of a range's live rows; of some of them in `some`.
  static std::span<const RowResult> LiveResults(const Step& step, size_t range,
                                                std::vector<RowResult>& some);
  // Whether the device went on with the beams that the decoder says.
  static bool DeviceAgrees(const Step& step, size_t range,
                           std::span<const Continuation> continuations);
  Decoded DecodeRange(const Step& step, size_t range, Decode decode, Workspace& workspace);
  // Whether Continue may be called beside others: it changes no block that another group has.
  bool MayContinueApart(const Step& step, size_t range) const;
  // The group's next rows, or those that were assumed and have come true.
  void Continue(const Step& step, size_t range, Workspace& workspace);
  void Settle(Group& group, const Assumption& assumption, const Decoded& decoded,
              Workspace& workspace);

  const DeviceSteps device_steps_;
  Scheduler& scheduler_;
  const Parallel parallel_;
  size_t next_device_step_ = 0;
  int32_t next_lane_ = 0;
  bool idle_ = false;                          // the last Launch found nothing to compute
  std::deque<Step> steps_;                     // under way, in the order of their launch
  std::vector<std::unique_ptr<Group>> ended_;  // to be freed, and nobody's any more
  Clock::time_point last_landing_;

  // Of the step being launched or landed; kept for their memory.
  DeviceEdits edits_;
  std::vector<const RowRequest*> requests_;
  std::vector<BeamSearch> searches_;
  std::vector<std::optional<std::span<const AssumedRow>>> assumed_;  // of each range
  std::vector<Decoded> decoded_;                                     // of each range
  // Of each range that a thread began with, what went out of use there.
  std::vector<GroupCache::Workspace> freed_;
  Workspace workspace_;  // of the caller's thread
};

}  // namespace beamline
