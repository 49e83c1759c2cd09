#include "engine/scheduling/scheduler.h"

#include <utility>

namespace beamline {

Scheduler::Scheduler(const PlannerLimits& limits, int32_t num_blocks)
    : limits_(limits), cache_(num_blocks, limits.block_size) {}

void Scheduler::Add(std::unique_ptr<Group> group) { groups_.push_back(std::move(group)); }

bool Scheduler::PrepareStep(Clock::time_point now) {
  Plan(now);
  CarryOut(now);
  return plan_.num_tokens > 0;
}

void Scheduler::Plan(Clock::time_point now) {
  row_states_.clear();
  group_states_.clear();
  for (const auto& group : groups_) {
    for (const Sequence& row : group->rows) {
      row_states_.push_back({static_cast<int32_t>(row.tokens.size()), row.num_computed,
                             static_cast<int32_t>(row.blocks.size()), cache_.TailIsShared(row)});
    }
  }
  size_t first_row = 0;
  for (const auto& group : groups_) {
    GroupState state;
    state.running = group->running;
    state.priority = group->priority;
    state.arrival = group->arrival;
    state.admission = group->admission;
    state.max_rows = group->decoder->max_rows();
    state.held_blocks = group->held_blocks;
    if (group->memory.empty()) {
      state.memory_tokens = static_cast<int32_t>(group->encoder_ids.size());
    }
    state.rows = {row_states_.data() + first_row, group->rows.size()};
    first_row += group->rows.size();
    group_states_.push_back(state);
  }
  PlanStep(group_states_, cache_.pool().num_free(), limits_, now, plan_);
}

void Scheduler::CarryOut(Clock::time_point now) {
  for (const int32_t index : plan_.preempt) {
    cache_.Release(*groups_[index]);
    groups_[index]->running = false;
  }
  for (const int32_t index : plan_.admit) {
    Group& group = *groups_[index];
    group.running = true;
    group.admission = next_admission_++;
    if (group.queue_time.count() < 0) group.queue_time = now - group.arrival;
  }
  builder_.Build(plan_, groups_, cache_);
}

void Scheduler::RemoveDone() {
  std::erase_if(groups_, [this](const std::unique_ptr<Group>& group) {
    if (group->done) cache_.Release(*group);
    return group->done;
  });
}

int32_t Scheduler::num_running_rows() const {
  int32_t rows = 0;
  for (const auto& group : groups_) {
    if (group->running) rows += static_cast<int32_t>(group->rows.size());
  }
  return rows;
}

absl::Status Scheduler::Verify() const {
  std::vector<const BlockTable*> tables;
  for (const auto& group : groups_) {
    tables.push_back(&group->memory);
    for (const Sequence& row : group->rows) tables.push_back(&row.blocks);
  }
  return cache_.pool().Verify(tables);
}

}  // namespace beamline
