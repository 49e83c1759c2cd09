#include "engine/scheduling/planner.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace beamline {
namespace {

// Blocks that computing `count` more tokens of a row takes from the pool, a copy of a shared tail
// included.
int32_t BlocksToGrow(const RowState& row, int32_t count, int32_t block_size) {
  const int32_t needed = CeilDiv(row.num_computed + count, block_size);
  return std::max(0, needed - row.num_blocks) + (row.shared_tail ? 1 : 0);
}

int32_t Pending(const RowState& row) { return row.num_tokens - row.num_computed; }

class Planner {
 public:
  Planner(std::span<const GroupState> groups, int32_t free_blocks, const StepLimits& limits,
          int32_t lane, int32_t width, StepPlan& plan)
      : groups_(groups),
        limits_(limits),
        lane_(lane),
        width_(width),
        plan_(plan),
        rows_of_lanes_(limits.num_lanes, 0),
        free_blocks_(free_blocks),
        free_tokens_(limits.max_batch_tokens),
        free_logits_(limits.max_logits_rows) {}

  void Plan() {
    std::vector<int32_t> own, waiting;
    int32_t used_rows = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(groups_.size()); ++i) {
      const GroupState& group = groups_[i];
      if (group.running) {
        if (group.lane == lane_) own.push_back(i);
        rows_of_lanes_[group.lane] += group.max_rows;
        used_rows += group.max_rows;
      } else {
        waiting.push_back(i);
      }
    }
    const auto came_before = [this](int32_t a, int32_t b) {
      return groups_[a].admission < groups_[b].admission;
    };
    // As a rule they are in order.
    if (!std::ranges::is_sorted(own, came_before)) std::ranges::sort(own, came_before);
    if (PlanRunning(own)) Admit(waiting, used_rows);
  }

 private:
  // False when a group must be given up first.
  bool PlanRunning(std::vector<int32_t>& running) {
    // Rows that decode before rows that prefill: a long prompt must not stall the streams.
    std::stable_partition(running.begin(), running.end(),
                          [this](int32_t group) { return Decodes(groups_[group]); });
    for (const int32_t group : running) {
      if (PlanGroup(group)) continue;
      plan_.Clear();
      plan_.preempt = WorstRanked();
      return false;
    }
    return true;
  }

  // Only wanted tokens are left to compute. A lone row that has computed nothing counts as a
  // prefill; several go together like any other rows of one group.
  static bool Decodes(const GroupState& group) {
    const bool alone = group.rows.size() == 1;
    return group.memory_tokens == 0 &&
           std::all_of(group.rows.begin(), group.rows.end(), [alone](const RowState& row) {
             return Pending(row) == row.num_logits && (row.num_computed > 0 || !alone);
           });
  }

  // Of those that run, the lowest priority, then the last admitted.
  int32_t WorstRanked() const {
    const auto worst =
        std::ranges::min_element(groups_, [](const GroupState& left, const GroupState& right) {
          if (left.running != right.running) return left.running;
          if (left.priority != right.priority) return left.priority < right.priority;
          return left.admission > right.admission;
        });
    return static_cast<int32_t>(worst - groups_.begin());
  }

  // Plans what fits of a running group. False when blocks are missing to get on at all.
  bool PlanGroup(int32_t index) {
    return Decodes(groups_[index]) ? PlanDecode(index) : PlanPrefill(index);
  }

  bool PlanDecode(int32_t index) {
    const GroupState& group = groups_[index];
    int32_t tokens = 0, blocks = 0;
    for (const RowState& row : group.rows) {
      tokens += row.num_logits;
      blocks += BlocksToGrow(row, row.num_logits, limits_.block_size);
    }
    if (tokens > free_tokens_ || tokens > free_logits_) return true;  // out of budget: next step
    if (blocks > free_blocks_) return false;
    for (int32_t row = 0; row < static_cast<int32_t>(group.rows.size()); ++row) {
      plan_.chunks.push_back({index, row, group.rows[row].num_logits});
    }
    Take(tokens, blocks);
    free_logits_ -= tokens;
    return true;
  }

  bool PlanPrefill(int32_t index) {
    const GroupState& group = groups_[index];
    // Rows of a group that advances as one stop before their last tokens, to take them together.
    const bool may_complete = group.rows.size() == 1;
    for (int32_t r = 0; r < static_cast<int32_t>(group.rows.size()); ++r) {
      const RowState& row = group.rows[r];
      const int32_t before_tail = Pending(row) - row.num_logits;
      const bool completes = may_complete && Pending(row) <= free_tokens_ &&
                             row.num_logits <= free_logits_ &&
                             FittingTokens(row, Pending(row)) == Pending(row);
      const int32_t wanted = completes ? Pending(row) : std::min(before_tail, free_tokens_);
      if (wanted <= 0) {
        if (may_complete && FittingTokens(row, Pending(row)) < Pending(row)) return false;
        continue;
      }
      const int32_t count = FittingTokens(row, wanted);
      if (count == 0) return false;
      plan_.chunks.push_back({index, r, count});
      Take(count, BlocksToGrow(row, count, limits_.block_size));
      if (completes) free_logits_ -= row.num_logits;
    }
    return true;
  }

  // How many of `count` tokens the free blocks allow.
  int32_t FittingTokens(const RowState& row, int32_t count) const {
    if (BlocksToGrow(row, count, limits_.block_size) <= free_blocks_) return count;
    const int32_t usable = free_blocks_ - (row.shared_tail ? 1 : 0);
    if (usable < 0) return 0;
    return std::clamp((row.num_blocks + usable) * limits_.block_size - row.num_computed, 0, count);
  }

  void Take(int32_t tokens, int32_t blocks) {
    free_tokens_ -= tokens;
    free_blocks_ -= blocks;
    plan_.num_tokens += tokens;
  }

  void Admit(const std::vector<int32_t>& waiting, int32_t used_rows) {
    bool alone = used_rows == 0;
    for (const int32_t index : waiting) {
      const GroupState& group = groups_[index];
      if (used_rows >= width_ || group.max_rows > limits_.max_sequences - used_rows) return;
      if (free_tokens_ == 0) return;
      const int32_t blocks = BlocksToStart(group);
      if (blocks + (alone ? 0 : limits_.watermark_blocks()) > free_blocks_) return;
      const int32_t lane = EmptiestLane();
      if (lane != lane_) {
        free_blocks_ -= blocks;
      } else if (!AdmitOne(index)) {
        return;
      }
      rows_of_lanes_[lane] += group.max_rows;
      used_rows += group.max_rows;
      alone = false;
    }
  }

  // The step's own, unless another has fewer rows.
  int32_t EmptiestLane() const {
    const auto fewest = std::ranges::min_element(rows_of_lanes_);
    if (rows_of_lanes_[lane_] == *fewest) return lane_;
    return static_cast<int32_t>(fewest - rows_of_lanes_.begin());
  }

  // A group starts when its whole prompt fits beside the watermark, so that it does not start only
  // to be preempted. Alone it may use everything.
  int32_t BlocksToStart(const GroupState& group) const {
    int32_t blocks = CeilDiv(group.memory_tokens, limits_.block_size);
    for (const RowState& row : group.rows) {
      blocks += row.prefix_free_blocks + BlocksToGrow(row, Pending(row), limits_.block_size);
    }
    return blocks;
  }

  bool AdmitOne(int32_t index) {
    const GroupState& group = groups_[index];
    // An encoder attends to its whole input at once: it is never cut into chunks.
    if (group.memory_tokens > free_tokens_) return false;
    if (group.memory_tokens > 0) {
      plan_.encode.push_back(index);
      Take(group.memory_tokens, CeilDiv(group.memory_tokens, limits_.block_size));
    }
    plan_.admit.push_back(index);
    for (const RowState& row : group.rows) free_blocks_ -= row.prefix_free_blocks;
    return PlanGroup(index);
  }

  std::span<const GroupState> groups_;
  const StepLimits& limits_;
  const int32_t lane_;
  const int32_t width_;
  StepPlan& plan_;
  std::vector<int32_t> rows_of_lanes_;  // that their groups may come to have
  int32_t free_blocks_;
  int32_t free_tokens_;
  int32_t free_logits_;
};

}  // namespace

void StepPlan::Clear() {
  preempt = -1;
  admit.clear();
  encode.clear();
  chunks.clear();
  num_tokens = 0;
}

void PlanStep(std::span<const GroupState> groups, int32_t free_blocks, const StepLimits& limits,
              StepPlan& plan, int32_t lane, int32_t width) {
  plan.Clear();
  Planner(groups, free_blocks, limits, lane, width, plan).Plan();
}

int64_t WorstCaseBlocks(int32_t memory_tokens, int32_t max_rows, int32_t max_total_tokens,
                        int32_t block_size) {
  return CeilDiv(memory_tokens, block_size) +
         static_cast<int64_t>(max_rows) * (CeilDiv(max_total_tokens, block_size) + 1);
}

}  // namespace beamline
