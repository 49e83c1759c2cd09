#include "engine/scheduling/planner.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/math.h"
#include "engine/scheduling/prompt_shares.h"
#include "engine/scheduling/put_back.h"

namespace beamline {
namespace {

// Blocks that `count` more tokens of a row take from the pool, including the copy of a shared tail.
int32_t BlocksToGrow(const RowState& row, int32_t count, int32_t block_size) {
  const int32_t needed = CeilDiv(row.num_computed + count, block_size);
  return std::max(0, needed - row.num_blocks) + (row.shared_tail ? 1 : 0);
}

int32_t Pending(const RowState& row) { return row.num_tokens - row.num_computed; }

// Whether only tokens whose logits are needed are left. A single row that has computed nothing
// counts as a prompt; several rows go together like any rows of one group.
bool HasWantedAlone(const GroupState& group) {
  const bool alone = group.rows.size() == 1;
  return group.memory_tokens == 0 &&
         std::all_of(group.rows.begin(), group.rows.end(), [alone](const RowState& row) {
           return Pending(row) == row.num_logits && (row.num_computed > 0 || !alone);
         });
}

bool Decodes(const GroupState& group) { return group.generates && HasWantedAlone(group); }

int32_t WantedTokens(const GroupState& group) {
  int32_t tokens = 0;
  for (const RowState& row : group.rows) tokens += row.num_logits;
  return tokens;
}

// Prompt tokens of a group that a step could compute; 0 while it waits for its results.
int32_t PromptTokensOf(const GroupState& group) {
  if (HasWantedAlone(group)) return WantedTokens(group);
  if (group.rows.size() == 1) return Pending(group.rows.front());
  // In a group whose rows advance together, rows stop before their last tokens, to compute these
  // together.
  int32_t tokens = 0;
  for (const RowState& row : group.rows) tokens += std::max(0, Pending(row) - row.num_logits);
  return tokens;
}

class Planner {
 public:
  Planner(std::span<const GroupState> groups, int32_t free_blocks, const StepLimits& limits,
          const StepOptions& options, StepPlan& plan)
      : groups_(groups),
        limits_(limits),
        lane_(options.lane),
        width_(options.width),
        keeps_lane_(options.keeps_lane),
        newcomers_(groups.last(static_cast<size_t>(options.num_newcomers))),
        plan_(plan),
        rows_of_lanes_(limits.num_lanes, 0),
        free_blocks_(free_blocks),
        free_tokens_(limits.max_batch_tokens),
        free_logits_(limits.max_logits_rows),
        prompt_tokens_(options.prompt_tokens.alone) {
    for (const GroupState& group : groups) {
      if (!group.running || !Decodes(group)) continue;
      prompt_tokens_ = options.prompt_tokens.beside_decoding;
      break;
    }
  }

  void Plan() {
    std::vector<int32_t> own, waiting;
    int32_t used_rows = 0;
    for (int32_t i = 0; i < static_cast<int32_t>(groups_.size()); ++i) {
      const GroupState& group = groups_[i];
      if (!group.running) {
        waiting.push_back(i);
        continue;
      }
      if (group.lane == lane_) own.push_back(i);
      rows_of_lanes_[group.lane] += group.max_rows;
      used_rows += group.max_rows;
      if (!Decodes(group)) promised_blocks_ += BlocksOfPrompt(group);
    }
    const auto came_before = [this](int32_t a, int32_t b) {
      return groups_[a].admission < groups_[b].admission;
    };
    // Usually they are in order already.
    if (!std::ranges::is_sorted(own, came_before)) std::ranges::sort(own, came_before);
    for (const int32_t index : own) {
      if (!Decodes(groups_[index])) {
        AddPrompt(index);
      } else if (!PlanWanted(index)) {
        return GiveUpOne();
      }
    }
    if (!Admit(waiting, used_rows)) return;
    if (!PlanPrompts()) GiveUpOne();
  }

 private:
  // A running group cannot continue without blocks: preempt one.
  void GiveUpOne() {
    plan_.Clear();
    plan_.preempt = PutBackForBlocks(groups_);
  }

  // Plans the last tokens of all rows, whose logits are needed. False when blocks are missing.
  bool PlanWanted(int32_t index) {
    const GroupState& group = groups_[index];
    const int32_t tokens = WantedTokens(group);
    int32_t blocks = 0;
    for (const RowState& row : group.rows) {
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

  void AddPrompt(int32_t index) {
    const GroupState& group = groups_[index];
    const int32_t tokens = PromptTokensOf(group);
    if (tokens == 0) return;
    prompts_.push_back(index);
    demands_.push_back({group.client, group.last_prompt_step, tokens});
    demanded_ += tokens;
  }

  // Whether the client has a running or just admitted group.
  bool Runs(std::string_view client) {
    if (!running_clients_.has_value()) {
      running_clients_.emplace();
      for (const GroupState& group : groups_) {
        if (group.running) running_clients_->insert(group.client);
      }
      running_clients_->insert(admitted_clients_.begin(), admitted_clients_.end());
    }
    return running_clients_->contains(client);
  }

  bool IsSharing(std::string_view client) const {
    return std::ranges::find(demands_, client, &PromptDemand::client) != demands_.end();
  }

  // Tokens of the step that prompts may still take. Every row that starts gets at least one.
  int32_t PromptTokensLeft() const {
    return std::min(free_tokens_, std::max(prompt_tokens_, static_cast<int32_t>(prompts_.size())));
  }

  // Returns false when blocks are missing for a running group.
  bool PlanPrompts() {
    if (prompts_.empty()) return true;
    int32_t left = PromptTokensLeft();
    const size_t first = SharePromptTokens(left, demands_);
    if (!PlanPrompt(first, demands_[first].share, /*is_first=*/true, left)) return false;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      if (i == first) continue;
      if (!PlanPrompt(i, std::min(left, demands_[i].share), /*is_first=*/false, left)) return false;
    }
    // Prompts that could not be cut to their share get the tokens that others left.
    for (size_t i = 0; i < prompts_.size() && left > 0; ++i) {
      if (demands_[i].tokens == 0 || i == first) continue;
      if (!PlanPrompt(i, left, /*is_first=*/false, left)) return false;
    }
    return true;
  }

  // Plans `share` tokens of the prompt; the first one may get more if it cannot be split. Subtracts
  // them from `left` and, if there are any, from the prompt's demand. False when blocks are missing
  // for a running group.
  bool PlanPrompt(size_t prompt, int32_t share, bool is_first, int32_t& left) {
    if (share == 0 && !is_first) return true;
    const int32_t index = prompts_[prompt], before = free_tokens_;
    const GroupState& group = groups_[index];
    bool fits = true;
    if (!HasWantedAlone(group)) {
      fits = PlanPrefill(index, share, is_first);
    } else if (WantedTokens(group) <= share || is_first) {
      fits = PlanWanted(index);
    }
    if (free_tokens_ < before) {
      plan_.prompts.push_back(index);
      demands_[prompt].tokens = 0;
      left = std::max(0, left - (before - free_tokens_));
    }
    return fits || !group.running;
  }

  bool PlanPrefill(int32_t index, int32_t share, bool is_first) {
    const GroupState& group = groups_[index];
    const bool may_complete = group.rows.size() == 1;
    for (int32_t r = 0; r < static_cast<int32_t>(group.rows.size()); ++r) {
      const RowState& row = group.rows[r];
      const int32_t before_tail = Pending(row) - row.num_logits;
      const int32_t most = is_first && before_tail == 0 ? free_tokens_ : share;
      const bool completes = may_complete && Pending(row) <= most &&
                             row.num_logits <= free_logits_ &&
                             FittingTokens(row, Pending(row)) == Pending(row);
      const int32_t wanted = completes ? Pending(row) : std::min(before_tail, share);
      if (wanted <= 0) {
        const bool in_budget = may_complete && before_tail == 0 && Pending(row) <= most;
        if (in_budget && FittingTokens(row, Pending(row)) < Pending(row)) return false;
        continue;
      }
      const int32_t count = FittingTokens(row, wanted);
      if (count == 0) return false;
      plan_.chunks.push_back({index, r, count});
      Take(count, BlocksToGrow(row, count, limits_.block_size));
      share -= count;
      if (completes) free_logits_ -= row.num_logits;
    }
    return true;
  }

  // How many of `count` tokens fit into the free blocks.
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

  // Returns false when a running group must be preempted first.
  bool Admit(const std::vector<int32_t>& waiting, int32_t used_rows) {
    bool alone = used_rows == 0, is_full = false;
    for (const int32_t index : waiting) {
      const GroupState& group = groups_[index];
      if ((is_full || used_rows >= width_) && Runs(group.client)) continue;
      // If this many clients run, none of them has to make room.
      if (used_rows >= width_ && std::ssize(*running_clients_) >= width_) return true;
      if (free_tokens_ == 0) return true;
      if (demanded_ >= PromptTokensLeft()) {  // a client's first prompt shares the step; its others
                                              // wait
        if (IsSharing(group.client)) continue;
        if (num_sharing_ == kMostSharing) return true;
        ++num_sharing_;
      }
      const int32_t kept = promised_blocks_ + (alone ? 0 : limits_.watermark_blocks());
      Room room = {.rows = group.max_rows, .blocks = BlocksToStart(group)};
      const Room left = LeftToNewcomers(group);
      room.missing_rows = room.rows + left.rows - (limits_.max_sequences - used_rows);
      room.missing_blocks = room.blocks + left.blocks + kept - free_blocks_;
      if (room.missing_rows > 0 || room.missing_blocks > 0) {
        if (!Runs(group.client)) return !MakeRoom(index, room);
        is_full = true;  // except for clients that have nothing running
        continue;
      }
      const int32_t lane = keeps_lane_ ? lane_ : EmptiestLane();
      if (lane != lane_) {
        free_blocks_ -= room.blocks;
      } else if (!AdmitOne(index)) {
        return true;
      }
      rows_of_lanes_[lane] += group.max_rows;
      used_rows += group.max_rows;
      admitted_clients_.push_back(group.client);  // or it is assigned to another lane
      if (running_clients_.has_value()) running_clients_->insert(group.client);
      alone = false;
    }
    return true;
  }

  // The room that a waiting group leaves to groups of clients that have nothing running.
  Room LeftToNewcomers(const GroupState& group) {
    Room left;
    const bool is_one = &group >= newcomers_.data();
    if (newcomers_.empty() || is_one || !Runs(group.client)) return left;
    for (const GroupState& newcomer : newcomers_) {
      if (newcomer.turn_priority < group.turn_priority || Runs(newcomer.client)) continue;
      left.rows += newcomer.max_rows;
      left.blocks += BlocksToStart(newcomer);
    }
    return left;
  }

  // False: no group can be preempted for it.
  bool MakeRoom(int32_t index, const Room& room) {
    // Groups admitted in this step are not preempted, so they free no room.
    if (!plan_.admit.empty()) return false;
    const int32_t preempt = PutBackFor(groups_[index], room, groups_);
    if (preempt < 0) return false;
    plan_.Clear();
    plan_.preempt = preempt;
    plan_.instead = index;
    return true;
  }

  // The step's own lane, unless another one has fewer rows.
  int32_t EmptiestLane() const {
    const auto fewest = std::ranges::min_element(rows_of_lanes_);
    if (rows_of_lanes_[lane_] == *fewest) return lane_;
    return static_cast<int32_t>(fewest - rows_of_lanes_.begin());
  }

  // Blocks for the remaining tokens of a group's rows.
  int32_t BlocksOfPrompt(const GroupState& group) const {
    int32_t blocks = 0;
    for (const RowState& row : group.rows) {
      blocks += BlocksToGrow(row, Pending(row), limits_.block_size);
    }
    return blocks;
  }

  // A group starts only if its whole prompt fits and the watermark stays free; otherwise it might
  // be preempted soon. If it runs alone, it may use all blocks.
  int32_t BlocksToStart(const GroupState& group) const {
    int32_t blocks = CeilDiv(group.memory_tokens, limits_.block_size) + BlocksOfPrompt(group);
    for (const RowState& row : group.rows) blocks += row.prefix_free_blocks;
    return blocks;
  }

  bool AdmitOne(int32_t index) {
    const GroupState& group = groups_[index];
    if (group.memory_tokens > 0 && !AddEncoderInput(index)) return false;
    plan_.admit.push_back(index);
    for (const RowState& row : group.rows) free_blocks_ -= row.prefix_free_blocks;
    if (Decodes(group)) return PlanWanted(index);
    promised_blocks_ += BlocksOfPrompt(group);
    AddPrompt(index);
    return true;
  }

  // An encoder attends to its whole input at once, so the input is never split.
  bool AddEncoderInput(int32_t index) {
    const int32_t tokens = groups_[index].memory_tokens;
    if (tokens > free_tokens_ || (!plan_.encode.empty() && tokens > prompt_tokens_)) return false;
    plan_.encode.push_back(index);
    Take(tokens, CeilDiv(tokens, limits_.block_size));
    prompt_tokens_ -= tokens;
    return true;
  }

  std::span<const GroupState> groups_;
  const StepLimits& limits_;
  const int32_t lane_;
  const int32_t width_;
  const bool keeps_lane_;
  const std::span<const GroupState> newcomers_;
  StepPlan& plan_;
  std::vector<int32_t> rows_of_lanes_;  // maximum rows that their groups may reach
  int32_t free_blocks_;
  int32_t free_tokens_;
  int32_t free_logits_;
  int32_t prompt_tokens_;        // that prompts may still take
  int32_t promised_blocks_ = 0;  // needed by running prompts
  // Groups of the step with prompt tokens to compute.
  std::vector<int32_t> prompts_;
  std::vector<PromptDemand> demands_;                                     // one per entry of
                                                                          // prompts_
  int64_t demanded_ = 0;                                                  // sum over demands_
  std::optional<absl::flat_hash_set<std::string_view>> running_clients_;  // set when the width is
                                                                          // reached
  std::vector<std::string_view> admitted_clients_;
  int32_t num_sharing_ = 0;  // admitted although others use the whole step
};

}  // namespace

void StepPlan::Clear() {
  preempt = -1;
  instead = -1;
  admit.clear();
  encode.clear();
  prompts.clear();
  chunks.clear();
  num_tokens = 0;
}

void PlanStep(std::span<const GroupState> groups, int32_t free_blocks, const StepLimits& limits,
              StepPlan& plan, const StepOptions& options) {
  plan.Clear();
  Planner(groups, free_blocks, limits, options, plan).Plan();
}

int64_t WorstCaseBlocks(int32_t memory_tokens, int32_t max_rows, int32_t max_total_tokens,
                        int32_t block_size) {
  return CeilDiv(memory_tokens, block_size) +
         static_cast<int64_t>(max_rows) * (CeilDiv(max_total_tokens, block_size) + 1);
}

}  // namespace beamline
