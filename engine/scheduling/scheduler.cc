#include "engine/scheduling/scheduler.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "engine/scheduling/waiting_order.h"

namespace beamline {

Scheduler::Scheduler(const StepLimits& limits, bool share_prefixes, int32_t original_positions)
    : limits_(limits),
      cache_(limits.num_blocks, limits.block_size, share_prefixes, original_positions),
      has_two_angles_(original_positions > 0),
      width_(limits.max_sequences) {}

bool Scheduler::PrepareStep(Clock::time_point now, int32_t lane, const ParallelRanges& parallel) {
  num_preempted_ = 0;
  num_cached_tokens_ = 0;
  FindBegun();
  FindNext(now);
  Group* newcomer = nullptr;
  for (Plan(now, lane, false, parallel); plan_.preempt >= 0;
       Plan(now, lane, /*keeps_lane=*/newcomer != nullptr, parallel)) {
    newcomer = plan_.instead >= 0 ? planned_[plan_.instead] : nullptr;
    Preempt(*planned_[plan_.preempt], newcomer);
    ++num_preempted_;
    FindBegun();
    if (newcomer == nullptr) continue;
    first_out_of_turn_ = planned_.size();
    planned_.push_back(newcomer);
  }
  for (const int32_t index : plan_.admit) Admit(*planned_[index], lane, now);
  ++num_steps_;
  for (const int32_t index : plan_.prompts) planned_[index]->last_prompt_step = num_steps_;
  builder_.Build(plan_, planned_, group_states_, cache_, parallel);
  return plan_.num_tokens > 0;
}

void Scheduler::FindBegun() {
  planned_.clear();
  for (const auto& group : groups_.begun()) {
    if (group->running) planned_.push_back(group.get());
  }
  first_out_of_turn_ = std::numeric_limits<size_t>::max();
}

void Scheduler::Plan(Clock::time_point now, int32_t lane, bool keeps_lane,
                     const ParallelRanges& parallel) {
  if (has_two_angles_) {
    for (Group* const group : planned_) cache_.FollowLength(*group, group->length());
  }
  first_rows_.clear();
  size_t num_rows = 0;
  for (const Group* group : planned_) {
    first_rows_.push_back(num_rows);
    num_rows += group->rows.size();
  }
  row_states_.resize(num_rows);
  group_states_.resize(planned_.size());
  ForRanges(parallel, planned_.size(), [this, now](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) WriteState(i, now);
  });
  PlanStep(group_states_, cache_.pool().num_free(), limits_, plan_,
           {.lane = lane,
            .width = width_,
            .prompt_tokens = prompt_tokens_,
            .num_newcomers = static_cast<int32_t>(planned_.size() -
                                                  std::min(planned_.size(), first_out_of_turn_)),
            .keeps_lane = keeps_lane});
}

void Scheduler::WriteState(size_t planned, Clock::time_point now) {
  Group& group = *planned_[planned];
  RowState* const rows = row_states_.data() + first_rows_[planned];
  for (size_t row = 0; row < group.rows.size(); ++row) rows[row] = StateOf(group, group.rows[row]);
  GroupState& state = group_states_[planned];
  state.running = group.running;
  state.priority = group.running ? group.held_priority : WaitingOrder::Aged(group.rank, now);
  state.turn_priority = turns_.order().AgedPriority(group.rank);
  state.admission = group.admission;
  state.lane = group.lane;
  state.generates = group.decoder->generates();
  state.client = group.client;
  state.last_prompt_step = group.last_prompt_step;
  state.max_rows = group.decoder->max_rows();
  state.memory_tokens = group.memory.empty() ? static_cast<int32_t>(group.encoder_ids.size()) : 0;
  state.rows = {rows, group.rows.size()};
}

void Scheduler::FindNext(Clock::time_point now) {
  const size_t num_running = planned_.size();
  // Under load most groups wait for rows, so only as many are examined as there are rows.
  const int32_t most = std::min(width_, limits_.max_sequences) - num_reserved_rows();
  turns_.Start(groups_.turns(), now);
  for (const auto& group : groups_.begun()) {
    if (!group->running && !group->awaits_results) turns_.Add(*group);
  }
  for (int32_t i = 0; i < most; ++i) {
    Group* const next = turns_.Next();
    if (next == nullptr) return;
    planned_.push_back(next);
  }
  if (num_running > 0 && groups_.clients().size() > 1) FindNewcomers(now);
}

void Scheduler::FindNewcomers(Clock::time_point now) {
  absl::flat_hash_set<std::string_view> clients;
  for (const Group* const group : planned_) clients.insert(group->client);
  if (std::ssize(clients) >= width_) return;
  newcomers_.clear();
  for (const auto& group : groups_.begun()) {
    const bool waits = !group->running && !group->awaits_results;
    if (waits && !clients.contains(group->client)) newcomers_.push_back(group.get());
  }
  groups_.firsts().VisitEach([&](const std::string& client) { return !clients.contains(client); },
                             [&](Group& group) { newcomers_.push_back(&group); });
  WaitingOrder order(now);
  for (const Group* const group : newcomers_) order.Add(group->rank);
  const size_t most = std::min<size_t>(newcomers_.size(), kAboveWidth);
  const auto middle = newcomers_.begin() + static_cast<std::ptrdiff_t>(most);
  std::ranges::partial_sort(
      newcomers_, middle, [&](const Group* a, const Group* b) { return order(a->rank, b->rank); });
  first_out_of_turn_ = planned_.size();
  for (size_t i = 0; i < most; ++i) {
    if (clients.insert(newcomers_[i]->client).second) planned_.push_back(newcomers_[i]);
  }
}

RowState Scheduler::StateOf(const Group& group, Sequence& row) const {
  RowState state = cache_.StateOf(row);
  if (group.running) return state;
  const GroupCache::Prefix prefix = cache_.FindPrefix(group, row);
  state.num_blocks = prefix.num_blocks;
  state.num_computed = prefix.num_blocks * limits_.block_size;
  state.prefix_free_blocks = prefix.num_free_blocks;
  state.shared_tail = false;
  return state;
}

void Scheduler::Preempt(Group& group, Group* newcomer) {
  cache_.Release(group);
  group.running = false;
  const int32_t held_priority =
      std::exchange(group.held_priority, std::numeric_limits<int32_t>::min());
  if (newcomer == nullptr) return;
  group.rank.fair_tag = std::max(group.rank.fair_tag, newcomer->rank.fair_tag + 1);
  // The newcomer takes over that priority, so that it is not itself preempted for lack of it.
  newcomer->held_priority = std::max(newcomer->held_priority, held_priority);
}

void Scheduler::Admit(Group& group, int32_t lane, Clock::time_point now) {
  const bool first_time = !group.begun();
  group.running = true;
  group.lane = lane;
  group.admission = next_admission_++;
  group.held_priority = std::max(group.held_priority, group.rank.priority);
  groups_.Begin(group, now);
  for (Sequence& row : group.rows) cache_.AdoptPrefix(group, row);
  if (!first_time) return;
  group.cached_tokens = group.rows[0].num_computed;
  num_cached_tokens_ += group.cached_tokens;
}

void Scheduler::RemoveDone(std::vector<std::unique_ptr<Group>>& removed) {
  groups_.RemoveDone([&](std::unique_ptr<Group> group) {
    cache_.Release(*group);
    removed.push_back(std::move(group));
  });
}

void Scheduler::RemoveDone() {
  std::vector<std::unique_ptr<Group>> removed;
  RemoveDone(removed);
}

int32_t Scheduler::num_waiting() const {
  const auto others = std::ranges::count_if(
      groups_.begun(), [](const auto& group) { return group->running || group->awaits_results; });
  return static_cast<int32_t>(std::ssize(groups()) - others);
}

int32_t Scheduler::num_running_rows() const {
  int32_t rows = 0;
  for (const auto& group : groups_.begun()) {
    if (group->running) rows += static_cast<int32_t>(group->rows.size());
  }
  return rows;
}

int32_t Scheduler::num_reserved_rows() const {
  int32_t rows = 0;
  for (const auto& group : groups_.begun()) {
    if (group->running) rows += group->decoder->max_rows();
  }
  return rows;
}

absl::Status Scheduler::Verify() const {
  std::vector<const BlockTable*> tables;
  for (const auto& group : groups()) {
    tables.push_back(&group->memory);
    for (const Sequence& row : group->rows) tables.push_back(&row.blocks);
  }
  return cache_.pool().Verify(tables);
}

}  // namespace beamline
