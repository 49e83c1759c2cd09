// The waiting and running groups of a replica, and their cache. Plans a step, builds its batches,
// and forks or frees blocks when the groups have advanced. Has no device, thread or clock of its
// own: the step loop and the simulator (tests/engine/scheduling) use it alike.
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
  // original_positions: as in RotarySpec.
  Scheduler(const StepLimits& limits, bool share_prefixes, int32_t original_positions = 0);

  // Adds a group whose decoder has one row of at least one token.
  void Add(std::unique_ptr<Group> group) { groups_.Add(std::move(group)); }
  // From the next step on, groups are admitted while fewer than `width` (>= 1) rows run. The first
  // group of a client is admitted regardless: above the width, or by preempting a group of a client
  // that has more if all rows or blocks are taken. max_sequences of the limits remains the maximum.
  void SetWidth(int32_t width) { width_ = width; }
  // Applies from the next step on.
  void SetPromptTokens(const PromptTokens& most) { prompt_tokens_ = most; }
  // Plans the next step of a lane that has no step in progress, preempts, admits, and builds the
  // batches. Returns false when there is nothing to compute. parallel: runs the examination of
  // groups and the filling of rows; null: on the caller's thread.
  bool PrepareStep(Clock::time_point now, int32_t lane = 0,
                   const ParallelRanges& parallel = nullptr);
  // The prepared step; valid until the next PrepareStep.
  const StepBuilder& step() const { return builder_; }
  int32_t num_step_tokens() const { return plan_.num_tokens; }
  int32_t num_preempted() const { return num_preempted_; }
  // Cached prompt tokens of the groups that the prepared step admitted for the first time.
  int32_t num_cached_tokens() const { return num_cached_tokens_; }
  // Whether the group's next token changes the rotary angles of all its positions. They are then
  // computed again in the next step, which needs that token to be known.
  bool ChangesAnglesNext(const Group& group) const {
    return has_two_angles_ && cache_.ChangesAngles(group, group.length() + 1);
  }
  // Fork, Reorder and Settle keep what they free in the workspace until Free. Several threads may
  // change groups in parallel if these are apart, each thread with its own workspace.
  bool IsApart(const Group& group) const { return cache_.IsApart(group); }
  // Whether the row's tokens end at a block boundary, so that the block becomes a prefix when all
  // tokens are known.
  bool FillsItsBlock(const Sequence& row) const {
    return row.tokens.size() % static_cast<size_t>(limits_.block_size) == 0;
  }
  // Sets the group's next rows, as chosen by its decoder. A token may be kUnknownToken.
  void Fork(Group& group, std::span<const Continuation> next, GroupCache::Workspace& workspace) {
    cache_.Fork(group, next, workspace);
  }
  // Row i becomes a copy of row parents[i], as ReorderBeams (kernels/operators.h) does it.
  // REQUIRES: all tokens are computed, and the last position of each row was computed alone.
  void Reorder(Group& group, std::span<const int32_t> parents, GroupCache::Workspace& workspace) {
    cache_.Reorder(group, parents, workspace);
  }
  // Keeps only the rows in `rows` (ascending) and sets their last tokens, which were unknown.
  void Settle(Group& group, std::span<const KnownRow> rows, GroupCache::Workspace& workspace) {
    cache_.Settle(group, rows, workspace);
  }
  void Free(GroupCache::Workspace& workspace) { cache_.Free(workspace); }
  // Call after a failed step: the cached content cannot be trusted.
  void ForgetPrefixes() { cache_.ForgetPrefixes(); }
  // Frees the blocks of finished groups and moves the groups to the end of `removed`.
  void RemoveDone(std::vector<std::unique_ptr<Group>>& removed);
  void RemoveDone();

  JobList<Group>& jobs() { return groups_; }
  // All groups: first those that have begun, then those that wait.
  std::span<const std::unique_ptr<Group>> groups() const { return groups_.jobs(); }
  bool empty() const { return groups_.empty(); }
  // Groups that could run but do not.
  int32_t num_waiting() const;
  int32_t block_size() const { return limits_.block_size; }
  int32_t num_lanes() const { return limits_.num_lanes; }
  const BlockPool& pool() const { return cache_.pool(); }
  int32_t num_running_rows() const;
  int32_t num_reserved_rows() const;  // maximum rows that running groups may reach
  // Recounts all block references; INTERNAL when a count is wrong. For tests and debugging.
  absl::Status Verify() const;

 private:
  // Maximum groups per step that are admitted beyond the width, of clients that have nothing
  // running.
  static constexpr int32_t kAboveWidth = 8;

  // Adds all running groups to planned_.
  void FindBegun();
  // Adds the next groups to admit.
  void FindNext(Clock::time_point now);
  // Adds the first waiting group of each client without a planned group, out of order.
  void FindNewcomers(Clock::time_point now);
  // Plans the step from planned_.
  void Plan(Clock::time_point now, int32_t lane, bool keeps_lane, const ParallelRanges& parallel);
  // Writes a planned group's state to group_states_ and row_states_.
  void WriteState(size_t planned, Clock::time_point now);
  RowState StateOf(const Group& group, Sequence& row) const;
  // newcomer: the group that is preferred to `group` from now on; null: none.
  void Preempt(Group& group, Group* newcomer);
  void Admit(Group& group, int32_t lane, Clock::time_point now);

  StepLimits limits_;
  GroupCache cache_;
  bool has_two_angles_;  // short and long sequences use different rotary angles
  JobList<Group> groups_;
  uint64_t next_admission_ = 0;
  uint64_t num_steps_ = 0;
  int32_t width_;
  PromptTokens prompt_tokens_;

  // Scratch of the current step; kept to reuse memory.
  WaitingTurns<Group> turns_;
  std::vector<Group*> planned_;   // running groups, and those that may be admitted
  size_t first_out_of_turn_ = 0;  // index in planned_
  std::vector<Group*> newcomers_;
  std::vector<GroupState> group_states_;
  std::vector<RowState> row_states_;
  std::vector<size_t> first_rows_;  // per planned group, its first index in row_states_
  StepPlan plan_;
  int32_t num_preempted_ = 0;
  int32_t num_cached_tokens_ = 0;
  StepBuilder builder_;
};

}  // namespace beamline
