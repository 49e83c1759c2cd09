#include "engine/scheduling/generate_loop.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace beamline {
namespace {

RowState StateOf(const Sequence& row, const GroupCache& cache) {
  return {static_cast<int32_t>(row.tokens.size()), row.num_computed,
          static_cast<int32_t>(row.blocks.size()), cache.TailIsShared(row)};
}

}  // namespace

GenerateLoop::GenerateLoop(const GenerateLoopOptions& options, Transformer& transformer,
                           Backend& backend, ReplicaStats& stats, EngineObserver* observer)
    : options_(options),
      transformer_(transformer),
      backend_(backend),
      stats_(stats),
      observer_(observer),
      cache_(options.num_blocks, options.limits.block_size),
      selector_(backend) {
  stats_.total_blocks = options.num_blocks;
}

void GenerateLoop::Run() {
  while (true) {
    Receive();
    if (!open_) break;
    const Clock::time_point now = Clock::now();
    EndOverdue(now);
    Plan(now);
    if (!plan_.chunks.empty() || !plan_.encode.empty()) {
      CarryOutPlan(now);
      if (absl::Status status = Compute(); status.ok()) {
        Advance();
      } else {
        for (const auto& group : groups_) Fail(*group, status);
      }
      Report(now);
    }
    RemoveFinished();
  }
  for (const auto& group : groups_) {
    Fail(*group, absl::CancelledError("the server is shutting down"));
  }
  groups_.clear();
}

void GenerateLoop::Receive() {
  open_ = inbox_.Take(/*wait=*/groups_.empty(), std::nullopt, received_);
  for (std::unique_ptr<Group>& group : received_) groups_.push_back(std::move(group));
}

void GenerateLoop::EndOverdue(Clock::time_point now) {
  for (const auto& group : groups_) {
    if (group->cancelled->load(std::memory_order_relaxed)) {
      ++stats_.cancelled;
      Fail(*group, absl::CancelledError("cancelled by the client"));
    } else if (group->deadline.has_value() && *group->deadline <= now) {
      // A stream keeps what it has got; a single answer that is not whole is none.
      if (group->wants_deltas && group->decoder->num_generated_tokens() > 0) {
        group->decoder->Stop(FinishReason::kDeadline);
        Finish(*group);
      } else {
        Fail(*group,
             absl::DeadlineExceededError("the deadline passed before the answer was complete"));
      }
    }
  }
  RemoveFinished();
}

void GenerateLoop::Plan(Clock::time_point now) {
  row_states_.clear();
  group_states_.clear();
  for (const auto& group : groups_) {
    for (const Sequence& row : group->rows) row_states_.push_back(StateOf(row, cache_));
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
    if (group->memory.empty())
      state.memory_tokens = static_cast<int32_t>(group->encoder_ids.size());
    state.rows = {row_states_.data() + first_row, group->rows.size()};
    first_row += group->rows.size();
    group_states_.push_back(state);
  }
  PlanStep(group_states_, cache_.pool().num_free(), options_.limits, now, plan_);
}

void GenerateLoop::CarryOutPlan(Clock::time_point now) {
  for (const int32_t index : plan_.preempt) {
    cache_.Release(*groups_[index]);
    groups_[index]->running = false;
    ++stats_.preemptions;
  }
  for (const int32_t index : plan_.admit) {
    Group& group = *groups_[index];
    group.running = true;
    group.admission = next_admission_++;
    if (group.queue_time.count() < 0) {
      group.queue_time = now - group.arrival;
      --stats_.waiting_requests;
    }
  }
  builder_.Build(plan_, groups_, cache_);
}

absl::Status GenerateLoop::Compute() {
  if (!builder_.copies().empty()) transformer_.CopyBlocks(builder_.copies());
  if (builder_.encoder_batch().num_sequences() > 0) {
    transformer_.EncodeMemory(builder_.encoder_batch());
  }
  if (plan_.chunks.empty()) return backend_.Synchronize();
  const Tensor logits = transformer_.Decode(builder_.step_batch());
  if (builder_.logits_ranges().empty()) return backend_.Synchronize();

  requests_.clear();
  for (const LogitsRange& range : builder_.logits_ranges()) {
    for (const RowRequest& request : range.group->decoder->Requests()) {
      requests_.push_back(&request);
    }
  }
  return selector_.Select(logits, requests_);
}

void GenerateLoop::Advance() {
  for (const LogitsRange& range : builder_.logits_ranges()) {
    AdvanceGroup(*range.group, selector_.results().subspan(range.begin, range.count));
  }
}

void GenerateLoop::AdvanceGroup(Group& group, std::span<const RowResult> results) {
  if (group.first_token_time.count() < 0) group.first_token_time = Clock::now() - group.arrival;
  const std::vector<Continuation> next = group.decoder->Advance(results);
  const int32_t generated = group.decoder->num_generated_tokens();
  stats_.generated_tokens += std::max(0, generated - group.counted_tokens);
  group.counted_tokens = std::max(generated, group.counted_tokens);
  if (group.decoder->finished()) {
    Finish(group);
    return;
  }
  cache_.Fork(group, next);
  if (!group.wants_deltas) return;
  for (GenerateDelta& delta : group.decoder->TakeDeltas()) group.sink->OnDelta(std::move(delta));
}

void GenerateLoop::Finish(Group& group) {
  if (group.wants_deltas) {
    for (GenerateDelta& delta : group.decoder->TakeDeltas()) group.sink->OnDelta(std::move(delta));
  }
  GenerateResult result;
  result.usage.prompt_tokens = group.prompt_tokens;
  result.usage.generated_tokens = group.decoder->num_generated_tokens();
  result.sequences = group.decoder->TakeSequences();
  result.seed = group.seed;
  result.timing.queue = std::max(group.queue_time, std::chrono::nanoseconds(0));
  result.timing.first_token = std::max(group.first_token_time, std::chrono::nanoseconds(0));
  result.timing.total = Clock::now() - group.arrival;
  group.sink->OnFinish(std::move(result));
  group.sink = nullptr;
}

void GenerateLoop::Fail(Group& group, const absl::Status& status) {
  if (group.sink == nullptr) return;
  group.sink->OnFinish(status);
  group.sink = nullptr;
}

void GenerateLoop::RemoveFinished() {
  std::erase_if(groups_, [this](std::unique_ptr<Group>& group) {
    if (group->sink != nullptr) return false;
    if (group->queue_time.count() < 0) --stats_.waiting_requests;
    cache_.Release(*group);
    return true;
  });
  stats_.used_blocks = cache_.pool().num_used();
}

void GenerateLoop::Report(Clock::time_point started) {
  int64_t rows = 0;
  for (const auto& group : groups_)
    rows += group->running ? static_cast<int64_t>(group->rows.size()) : 0;
  stats_.running_sequences = rows;
  stats_.prompt_tokens += builder_.num_prefill_tokens();
  ++stats_.steps;
  if (observer_ == nullptr) return;
  StepReport report;
  report.phase = builder_.num_prefill_tokens() == 0 ? StepReport::Phase::kDecode
                 : builder_.num_decode_rows() == 0  ? StepReport::Phase::kPrefill
                                                    : StepReport::Phase::kMixed;
  report.duration = Clock::now() - started;
  report.num_tokens = plan_.num_tokens;
  report.num_sequences = builder_.step_batch().num_sequences();
  observer_->OnStep(options_.model, report);
}

}  // namespace beamline
