// Keeps the steps between their launch and the reading of their results, with all assumptions about
// these results.
//
// While the device computes a step, the next one is planned and launched, assuming that every
// sequence continues. The groups get rows whose last tokens are unknown. The device takes those
// tokens, and the order of a search's beams, from its own results (DeviceEdits). When the results
// are read, rows whose sequences have ended are dropped, and what the later step computed for them
// is ignored. If a step's results decide what comes next (edits that depend on the tokens), it is
// read first.
//
// If the running groups are divided into lanes (StepLimits::num_lanes), each lane has one step in
// progress and nothing is assumed. While one step is read, the steps of the other lanes keep the
// device busy.
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

  // Decodes a group's results: returns its next rows, as its decoder chose them; nullopt: the
  // results are invalid. It may use only the group, because groups are decoded in parallel.
  using Decode = absl::FunctionRef<std::optional<std::span<const Continuation>>(
      Group& group, std::span<const RowResult> results)>;
  // State of a group after its results.
  struct Progress {
    bool decoded = false;  // whether Decode accepted the results; if not, the other fields are
                           // unset
    bool finished = false;
    int32_t num_generated_tokens = 0;
    int64_t num_computed_tokens = 0;
  };
  // A row that was assumed and came true.
  struct LandedRow {
    int32_t assumed = 0;  // index among the assumed rows
    int32_t parent = 0;
    int32_t token = 0;
  };
  // Called for every group, one after the other, on the caller's thread. It gets `progress` because
  // the decoder's data is in another thread's cache. If the group is finished afterwards, its rows
  // are not used.
  using Advance = absl::FunctionRef<void(Group& group, const Progress& progress)>;
  using DeviceSteps = std::vector<std::unique_ptr<DeviceStep>>;

  using Parallel = ParallelRanges;

  // The scheduler must outlive the pipeline. device_steps: two for one lane, else one per lane.
  // parallel: runs the decoding of groups; null: on the caller's thread.
  Pipeline(DeviceSteps device_steps, Scheduler& scheduler, Parallel parallel = nullptr);

  bool empty() const { return steps_.empty(); }
  // Whether the results of the oldest step in progress are ready.
  bool EarliestIsDone() { return !empty() && steps_.front().device->Done(); }
  // After Launch: whether the oldest step must land before the next Launch, because the maximum
  // number of steps is in progress or there is nothing else to compute.
  bool MustLand() const { return !empty() && (idle_ || steps_.size() == device_steps_.size()); }

  // Before Launch. False: the results of the last step decide the next one, so it must land first.
  // Otherwise the groups now have the rows that its results will most likely give them. With
  // several lanes, there is nothing to prepare.
  bool PrepareLaunch();
  // Plans a step of the next lane without a step in progress, and gives it to the device. False
  // when there is nothing to compute. REQUIRES: fewer than the maximum number of steps are in
  // progress.
  absl::StatusOr<bool> Launch(Clock::time_point now);
  // Waits for the oldest step in progress, passes its results to the unfinished groups, and gives
  // these their next rows. An error is the step's. REQUIRES: !empty().
  absl::StatusOr<StepReport> Land(Decode decode, Advance advance);
  // Removes finished groups when no step refers to them any more. FreeEnded frees their memory.
  void RemoveDone();
  // Frees removed groups one by one while `may_go_on` returns true, and always those beyond
  // kMostEnded. Freeing hundreds of groups at once would take milliseconds in which the device
  // waits.
  void FreeEnded(absl::FunctionRef<bool()> may_go_on);

 private:
  // Assumptions about a group, from planning the next step to landing this one.
  struct Assumption {
    std::span<const AssumedRow> rows;   // the decoder's; empty: the group ends with this step
    std::optional<BeamRequest> search;  // the decoder's
    BeamWords beams;                    // only with a search
    // Row i represents the search's beam i, but it may turn out to descend from any row. Until that
    // is known, it has the blocks and tokens of row i.
    bool parents_unknown = false;
  };

  // What a group made of its results, for the caller's thread.
  struct Decoded {
    std::span<const Continuation> rows;  // the decoder's
    Progress progress;
    bool device_agrees = true;  // the device chose the same beams as the decoder
    bool continued = false;     // its next rows are set
  };

  // Scratch memory of one thread that continues groups.
  struct Workspace {
    GroupCache::Workspace cache;
    size_t found = 0;  // state of Step::FindRange
    std::vector<RowResult> some_results;
    std::vector<Continuation> forks;
    std::vector<LandedRow> landed;
    std::vector<KnownRow> known_rows;
    std::vector<int32_t> parents;
  };

  // A step in progress. "Per range": entry i of the vector belongs to the group of ranges[i].
  struct Step {
    std::vector<LogitsRange> ranges;
    std::vector<int32_t> searches;  // per range: index among the step's searches; -1: none
    // Per range: rows that the previous step left alive; nullopt: all.
    std::vector<std::optional<std::vector<int32_t>>> live_rows;
    std::vector<Assumption> assumptions;  // per range, once its results are assumed; or empty
    // Groups that ended while this was the last launched step, which may still refer to them.
    std::vector<std::unique_ptr<Group>> ended;
    DeviceStep* device = nullptr;
    int32_t lane = 0;
    Clock::time_point started;
    StepReport report;

    // The group's range. Fast when groups are looked up in the order of the ranges: `found` keeps
    // the last position.
    std::optional<size_t> FindRange(const Group& group, size_t& found) const;
    // Index that the row had when the step was launched.
    int32_t LaunchedRow(size_t range, int32_t row) const;
  };

  void LetGo(std::vector<std::unique_ptr<Group>>& groups);
  // Gives the group its assumed rows.
  void AssumeRows(Step& step, size_t range, Workspace& workspace);
  // Whether AssumeRows may run in parallel for this group: it takes no block that another group
  // has.
  bool MayAssumeApart(const Group& group, std::span<const AssumedRow> rows) const;
  // The word in which the device leaves the token of a group's assumed row.
  static int32_t TokenWord(const Step& step, size_t range, int32_t row);
  // The step that the new step continues; null: none.
  Step* StepBefore() { return num_lanes() > 1 || empty() ? nullptr : &steps_.back(); }
  // Assumption of StepBefore() about a group; null: none.
  const Assumption* AssumptionOf(const Group& group, size_t& found);
  int32_t num_lanes() const { return scheduler_.num_lanes(); }
  // Plans a step of the next lane that has work; nullopt: none has.
  std::optional<int32_t> PrepareStep(Clock::time_point now);
  Step Describe(Clock::time_point now) const;
  void WriteEdits();
  void AddBeamTables(const UnknownToken& first, const Assumption& assumption);
  void CollectRequests(Step& step);
  void AppendSearch(const LogitsRange& range, const Assumption* assumption, Step& step,
                    size_t index);
  // Decodes the results of every unfinished group into decoded_. Groups that are apart also get
  // their next rows.
  void DecodeAll(const Step& step, Decode decode);
  void FreeAll();
  // The results of a range's live rows; `some` is scratch for a subset.
  static std::span<const RowResult> LiveResults(const Step& step, size_t range,
                                                std::vector<RowResult>& some);
  // Whether the device chose the same beams as the decoder.
  static bool DeviceAgrees(const Step& step, size_t range,
                           std::span<const Continuation> continuations);
  Decoded DecodeRange(const Step& step, size_t range, Decode decode, Workspace& workspace);
  // Whether Continue may run in parallel for this group: it changes no block that another group
  // has.
  bool MayContinueApart(const Step& step, size_t range) const;
  // Sets the group's next rows, or keeps the assumed rows that came true.
  void Continue(const Step& step, size_t range, Workspace& workspace);
  void Settle(Group& group, const Assumption& assumption, const Decoded& decoded,
              Workspace& workspace);

  const DeviceSteps device_steps_;
  Scheduler& scheduler_;
  const Parallel parallel_;
  size_t next_device_step_ = 0;
  int32_t next_lane_ = 0;
  bool idle_ = false;                          // the last Launch found no work
  std::deque<Step> steps_;                     // in progress, in the order of their launch
  std::vector<std::unique_ptr<Group>> ended_;  // to be freed; nothing refers to them
  Clock::time_point last_landing_;

  // Scratch of the step being launched or landed; kept to reuse memory.
  DeviceEdits edits_;
  std::vector<const RowRequest*> requests_;
  std::vector<BeamSearch> searches_;
  std::vector<std::optional<std::span<const AssumedRow>>> assumed_;  // per range
  std::vector<Decoded> decoded_;                                     // per range
  // At the index of each thread's first range: the blocks that the thread released.
  std::vector<GroupCache::Workspace> freed_;
  Workspace workspace_;  // of the caller's thread
};

}  // namespace beamline
