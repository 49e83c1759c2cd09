// The groups of a replica, waiting and running, and their cache: plans a step, carries the plan out
// as batches, and forks or frees when the groups have advanced. No device, no thread, no clock of
// its own: the step loop and the simulator (tests/engine/scheduling) drive it alike.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/scheduling/group.h"
#include "engine/scheduling/group_cache.h"
#include "engine/scheduling/job_list.h"
#include "engine/scheduling/planner.h"
#include "engine/scheduling/step_builder.h"
#include "engine/scheduling/waiting_turns.h"

namespace beamline {

class Scheduler {
 public:
  // original_positions: RotarySpec's.
  Scheduler(const StepLimits& limits, bool share_prefixes, int32_t original_positions = 0);

  // A group whose decoder has one row of at least one token.
  void Add(std::unique_ptr<Group> group) { groups_.Add(std::move(group)); }
  // From the next step on, groups are admitted while fewer rows than this run, at least 1, and the
  // first of a client's whatever runs: above the width or, where all rows or blocks are taken, in
  // the place of a group of a client that has more. max_sequences of the limits stays the most that
  // run.
  void SetWidth(int32_t width) { width_ = width; }
  // Of the steps from the next one on.
  void SetPromptTokens(const PromptTokens& most) { prompt_tokens_ = most; }
  // Plans the next step, of a lane that has none under way, preempts, admits and builds its
  // batches. False when there is nothing to compute.
  // parallel: who looks at the groups and fills in their rows; null: the caller.
  bool PrepareStep(Clock::time_point now, int32_t lane = 0,
                   const ParallelRanges& parallel = nullptr);
  // The prepared step, until the next PrepareStep.
  const StepBuilder& step() const { return builder_; }
  int32_t num_step_tokens() const { return plan_.num_tokens; }
  int32_t num_preempted() const { return num_preempted_; }
  // Of the groups that the prepared step admitted for the first time.
  int32_t num_cached_tokens() const { return num_cached_tokens_; }
  // Whether a group's next token changes the angles of all its positions, so that they are computed
  // again in the next step: not before that token is known.
  bool ChangesAnglesNext(const Group& group) const {
    return has_two_angles_ && cache_.ChangesAngles(group, group.length() + 1);
  }
  // Fork, Reorder and Settle keep what they free in the workspace until Free. Groups that are
  // apart may be changed beside each other by several threads, each with a workspace of its own.
  bool IsApart(const Group& group) const { return cache_.IsApart(group); }
  // Whether the row's tokens end with a block, so that knowing all of them makes it a prefix.
  bool FillsItsBlock(const Sequence& row) const {
    return row.tokens.size() % static_cast<size_t>(limits_.block_size) == 0;
  }
  // The group's next rows, as its decoder chose them. A token may be kUnknownToken.
  void Fork(Group& group, std::span<const Continuation> next, GroupCache::Workspace& workspace) {
    cache_.Fork(group, next, workspace);
  }
  // Row i becomes a copy of row parents[i], as ReorderBeams (kernels/operators.h) makes it.
  // REQUIRES: all tokens are computed, the last position of each row by itself.
  void Reorder(Group& group, std::span<const int32_t> parents, GroupCache::Workspace& workspace) {
    cache_.Reorder(group, parents, workspace);
  }
  // The rows named are kept, ascending, and their last tokens, unknown until now, are these.
  void Settle(Group& group, std::span<const KnownRow> rows, GroupCache::Workspace& workspace) {
    cache_.Settle(group, rows, workspace);
  }
  void Free(GroupCache::Workspace& workspace) { cache_.Free(workspace); }
  // A step failed: what the cache holds is not to be trusted.
  void ForgetPrefixes() { cache_.ForgetPrefixes(); }
  // Frees the blocks of groups that are done, and moves the groups behind those in `removed`.
  void RemoveDone(std::vector<std::unique_ptr<Group>>& removed);
  void RemoveDone();

  JobList<Group>& jobs() { return groups_; }
  // Those that have begun, and behind them those that have not.
  std::span<const std::unique_ptr<Group>> groups() const { return groups_.jobs(); }
  bool empty() const { return groups_.empty(); }
  // Groups that could run and do not.
  int32_t num_waiting() const;
  int32_t block_size() const { return limits_.block_size; }
  int32_t num_lanes() const { return limits_.num_lanes; }
  const BlockPool& pool() const { return cache_.pool(); }
  int32_t num_running_rows() const;
  int32_t num_reserved_rows() const;  // that the running groups may come to have
  // Recounts every reference to a block: INTERNAL when a count is wrong. For tests and debugging.
  absl::Status Verify() const;

 private:
  // Groups of clients of which nothing runs that a step may admit beyond the width.
  static constexpr int32_t kAboveWidth = 8;

  // To planned_, all that run.
  void FindBegun();
  // And those that are the next to be admitted.
  void FindNext(Clock::time_point now);
  // And of clients of which none is planned the first that waits: out of turn.
  void FindNewcomers(Clock::time_point now);
  // Of planned_.
  void Plan(Clock::time_point now, int32_t lane, bool keeps_lane, const ParallelRanges& parallel);
  // Of a planned group, to group_states_ and row_states_.
  void WriteState(size_t planned, Clock::time_point now);
  RowState StateOf(const Group& group, Sequence& row) const;
  // newcomer: whose turn is before the group's from now on; null: no group's.
  void Preempt(Group& group, Group* newcomer);
  void Admit(Group& group, int32_t lane, Clock::time_point now);

  StepLimits limits_;
  GroupCache cache_;
  bool has_two_angles_;  // short and long sequences do not have the same
  JobList<Group> groups_;
  uint64_t next_admission_ = 0;
  uint64_t num_steps_ = 0;
  int32_t width_;
  PromptTokens prompt_tokens_;

  // Of the current step; kept to reuse their memory.
  WaitingTurns<Group> turns_;
  std::vector<Group*> planned_;   // those that run, and those that may be admitted
  size_t first_out_of_turn_ = 0;  // of planned_
  std::vector<Group*> newcomers_;
  std::vector<GroupState> group_states_;
  std::vector<RowState> row_states_;
  std::vector<size_t> first_rows_;  // of each planned group, in row_states_
  StepPlan plan_;
  int32_t num_preempted_ = 0;
  int32_t num_cached_tokens_ = 0;
  StepBuilder builder_;
};

}  // namespace beamline
