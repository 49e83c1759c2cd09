#include "engine/scheduling/generate_loop.h"

#include <algorithm>
#include <utility>

#include "kernels/status.h"

namespace beamline {

GenerateLoop::GenerateLoop(const GenerateLoopOptions& options, Transformer& transformer,
                           Backend& backend, ReplicaStats& stats, EngineObserver* observer)
    : options_(options),
      transformer_(transformer),
      backend_(backend),
      stats_(stats),
      observer_(observer),
      scheduler_(options.limits, options.num_blocks, options.share_prefixes),
      selector_(backend) {
  stats_.total_blocks = options.num_blocks;
}

void GenerateLoop::Run() {
  while (true) {
    Receive();
    if (!open_) break;
    const Clock::time_point now = Clock::now();
    EndOverdue(now);
    if (scheduler_.PrepareStep(now)) {
      CountStep();
      if (absl::Status status = Compute(); status.ok()) {
        Advance();
      } else {
        for (const auto& group : scheduler_.groups()) Fail(*group, status);
        scheduler_.ForgetPrefixes();
      }
      Report(now);
    }
    RemoveFinished();
  }
  for (const auto& group : scheduler_.groups()) {
    Fail(*group, absl::CancelledError("the server is shutting down"));
  }
  RemoveFinished();
}

void GenerateLoop::Receive() {
  open_ = inbox_.Take(/*wait=*/scheduler_.empty(), received_);
  for (std::unique_ptr<Group>& group : received_) scheduler_.Add(std::move(group));
}

void GenerateLoop::EndOverdue(Clock::time_point now) {
  for (const auto& group : scheduler_.groups()) {
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

void GenerateLoop::CountStep() {
  stats_.preemptions += scheduler_.num_preempted();
  for (const auto& group : scheduler_.groups()) {
    if (group->counted_waiting && group->queue_time.count() >= 0) {
      group->counted_waiting = false;
      stats_.cached_prompt_tokens += group->cached_tokens;
      --stats_.waiting_requests;
    }
  }
}

absl::Status GenerateLoop::Compute() {
  if (!scheduler_.step().copies().empty()) transformer_.CopyBlocks(scheduler_.step().copies());
  if (scheduler_.step().encoder_batch().num_sequences() > 0) {
    transformer_.EncodeMemory(scheduler_.step().encoder_batch());
  }
  if (scheduler_.step().step_batch().num_sequences() == 0) return backend_.Synchronize();
  const Tensor logits = transformer_.Decode(scheduler_.step().step_batch());
  if (scheduler_.step().logits_ranges().empty()) return backend_.Synchronize();

  requests_.clear();
  for (const LogitsRange& range : scheduler_.step().logits_ranges()) {
    for (const RowRequest& request : range.group->decoder->Requests()) {
      requests_.push_back(&request);
    }
  }
  return selector_.Select(logits, requests_);
}

void GenerateLoop::Advance() {
  for (const LogitsRange& range : scheduler_.step().logits_ranges()) {
    AdvanceGroup(*range.group, selector_.results().subspan(range.begin, range.count));
  }
}

void GenerateLoop::AdvanceGroup(Group& group, std::span<const RowResult> results) {
  const std::vector<Continuation> next = group.decoder->Advance(results);
  const int32_t generated = group.decoder->num_generated_tokens();
  if (generated > 0 && group.first_token_time.count() < 0) {
    group.first_token_time = Clock::now() - group.arrival;
  }
  stats_.generated_tokens += std::max(0, generated - group.counted_tokens);
  group.counted_tokens = std::max(generated, group.counted_tokens);
  if (group.decoder->finished()) {
    Finish(group);
    return;
  }
  scheduler_.Fork(group, next);
  SendDeltas(group);
}

void GenerateLoop::SendDeltas(Group& group) {
  if (!group.wants_deltas) return;
  if (!group.echo_ids.empty() && !std::exchange(group.echo_sent, true)) {
    for (int32_t sequence = 0; sequence < group.num_sequences; ++sequence) {
      group.sink->OnDelta({.sequence = sequence, .ids = group.echo_ids, .text = group.echo_text});
    }
  }
  for (GenerateDelta& delta : group.decoder->TakeDeltas()) group.sink->OnDelta(std::move(delta));
}

void GenerateLoop::Finish(Group& group) {
  SendDeltas(group);
  GenerateResult result;
  result.usage.prompt_tokens = group.prompt_tokens;
  result.usage.cached_tokens = group.cached_tokens;
  result.usage.generated_tokens = group.decoder->num_generated_tokens();
  result.sequences = group.decoder->TakeSequences();
  for (GeneratedSequence& sequence : result.sequences) {
    sequence.ids.insert(sequence.ids.begin(), group.echo_ids.begin(), group.echo_ids.end());
    sequence.text.insert(0, group.echo_text);
  }
  result.seed = group.seed;
  result.prompt_logprobs = group.decoder->TakePromptLogprobs();
  result.timing.queue = std::max(group.queue_time, std::chrono::nanoseconds(0));
  result.timing.first_token = std::max(group.first_token_time, std::chrono::nanoseconds(0));
  result.timing.total = Clock::now() - group.arrival;
  group.sink->OnFinish(std::move(result));
  group.done = true;
}

void GenerateLoop::Fail(Group& group, const absl::Status& status) {
  if (group.done) return;
  group.sink->OnFinish(status);
  group.done = true;
}

void GenerateLoop::RemoveFinished() {
  for (const auto& group : scheduler_.groups()) {
    if (group->done && group->counted_waiting) --stats_.waiting_requests;
  }
  scheduler_.RemoveDone();
  stats_.used_blocks = scheduler_.pool().num_used();
  stats_.running_sequences = scheduler_.num_running_rows();
}

void GenerateLoop::Report(Clock::time_point started) {
  stats_.prompt_tokens += scheduler_.step().num_prefill_tokens();
  ++stats_.steps;
  if (observer_ == nullptr) return;
  StepReport report;
  report.phase = scheduler_.step().num_prefill_tokens() == 0 ? StepReport::Phase::kDecode
                 : scheduler_.step().num_decode_rows() == 0  ? StepReport::Phase::kPrefill
                                                             : StepReport::Phase::kMixed;
  report.duration = Clock::now() - started;
  report.num_tokens = scheduler_.num_step_tokens();
  report.num_sequences = scheduler_.step().step_batch().num_sequences();
  observer_->OnStep(options_.model, report);
}

}  // namespace beamline
