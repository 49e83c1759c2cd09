#include "engine/serving/generate_loop.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "engine/serving/finite_check.h"

namespace beamline {

GenerateLoop::GenerateLoop(const GenerateLoopOptions& options, Transformer& transformer,
                           Backend& backend, ReplicaStats& stats, ReplicaFault& fault,
                           EngineObserver* observer)
    : options_(options),
      transformer_(transformer),
      backend_(backend),
      stats_(stats),
      fault_(fault),
      observer_(observer),
      scheduler_(options.limits, options.num_blocks, options.share_prefixes),
      selectors_{Selector(backend), Selector(backend)} {
  stats_.total_blocks = options.num_blocks;
}

void GenerateLoop::Run() {
  while (true) {
    // A device that waits already gets its next step first: reading takes the host as long as
    // launching.
    if (last_.has_value() && !backend_.Records() && last_->selector->Done()) LandLast();
    Receive();
    if (!open_) break;
    const Clock::time_point now = Clock::now();
    EndOverdue(now);
    if (last_.has_value() && !RunAhead()) LandLast();
    std::optional<LaunchedStep> earlier = std::exchange(last_, std::nullopt);
    last_ = Launch(now, earlier);
    if (earlier.has_value()) Land(*earlier, last_.has_value() ? &last_->flight : nullptr);
    RemoveFinished();
  }
  FailAll(fault_.EndStatus());
  if (last_.has_value()) LandLast();
  RemoveFinished();
}

void GenerateLoop::Receive() {
  open_ = inbox_.Take(/*wait=*/scheduler_.empty() && !last_.has_value(), received_);
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
  stats_.prompt_tokens += scheduler_.step().num_prefill_tokens();
  stats_.preemptions += scheduler_.num_preempted();
  for (const auto& group : scheduler_.groups()) {
    if (group->counted_waiting && group->queue_time.count() >= 0) {
      group->counted_waiting = false;
      stats_.cached_prompt_tokens += group->cached_tokens;
      --stats_.waiting_requests;
    }
  }
}

std::optional<GenerateLoop::LaunchedStep> GenerateLoop::Launch(
    Clock::time_point now, const std::optional<LaunchedStep>& earlier) {
  const int32_t* words = earlier.has_value() ? earlier->selector->device_words() : nullptr;
  if (!scheduler_.PrepareStep(now, words)) return std::nullopt;
  CountStep();
  LaunchedStep step = {Flight(scheduler_.step().logits_ranges()), &selectors_[next_selector_], now,
                       DescribeStep()};
  next_selector_ = 1 - next_selector_;
  if (absl::Status status = Compute(step, earlier); !status.ok()) {
    FailStep(status);
    return std::nullopt;
  }
  return step;
}

absl::Status GenerateLoop::Compute(LaunchedStep& step, const std::optional<LaunchedStep>& earlier) {
  const StepBuilder& built = scheduler_.step();
  if (!built.copies().empty()) transformer_.CopyBlocks(built.copies());
  if (built.encoder_batch().num_sequences() > 0) transformer_.EncodeMemory(built.encoder_batch());
  Tensor logits;
  if (built.step_batch().num_sequences() > 0) logits = transformer_.Decode(built.step_batch());
  requests_.clear();
  searches_.clear();
  Flight& flight = step.flight;
  for (size_t i = 0; i < flight.ranges.size(); ++i) {
    AppendRequests(flight.ranges[i], requests_);
    if (!AppendSearch(flight.ranges[i], searches_)) continue;
    flight.searches[i] = static_cast<int32_t>(searches_.size()) - 1;
  }
  return step.selector->Start(logits, requests_, searches_,
                              earlier.has_value() ? earlier->selector : nullptr);
}

bool GenerateLoop::RunAhead() {
  const Selector& selector = *last_->selector;
  const auto token = [&](int32_t request, int32_t draw) {
    return selector.TokenWord(request, draw);
  };
  const auto beams = [&](int32_t search) { return selector.SearchWords(search); };
  return AssumeResults(last_->flight, {.token = token, .beams = beams}, scheduler_);
}

void GenerateLoop::LandLast() {
  LaunchedStep step = *std::exchange(last_, std::nullopt);
  Land(step, nullptr);
  RemoveFinished();
}

void GenerateLoop::Land(LaunchedStep& step, Flight* next) {
  if (absl::Status status = step.selector->Wait(); !status.ok()) {
    FailStep(status);
    return;
  }
  for (size_t i = 0; i < step.flight.ranges.size(); ++i) {
    if (!step.flight.ranges[i].group->done) AdvanceGroup(step, i, next);
  }
  Report(step);
}

void GenerateLoop::AdvanceGroup(LaunchedStep& step, size_t range, Flight* next) {
  Group& group = *step.flight.ranges[range].group;
  const std::span<const RowResult> results =
      LiveResults(step.flight, range, step.selector->results(), live_results_);
  if (!AreFinite(results)) {
    Fail(group, NotFiniteError(options_.model));
    scheduler_.ForgetPrefixes();
    return;
  }
  const std::vector<Continuation> continuations = group.decoder->Advance(results);
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
  if (const int32_t search = step.flight.searches[range]; search >= 0) {
    const BeamWords words = step.selector->SearchWords(search);
    const auto width = static_cast<size_t>(group.decoder->max_rows());
    if (!ChoseTheSame(step.flight, range, continuations,
                      step.selector->HostInts(words.parents, width),
                      step.selector->HostInts(words.tokens, width))) {
      Fail(group, absl::InternalError("the device went on with other beams than their scores say"));
      return;
    }
  }
  Continue(group, continuations, next, scheduler_);
  SendDeltas(group);
}

void GenerateLoop::FailStep(const absl::Status& error) {
  const absl::Status fault = fault_.Examine(backend_);
  if (!fault.ok()) inbox_.Close();
  FailAll(fault.ok() ? error : fault);
  scheduler_.ForgetPrefixes();
}

void GenerateLoop::FailAll(const absl::Status& status) {
  for (const auto& group : scheduler_.groups()) Fail(*group, status);
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
  if (last_.has_value()) {
    scheduler_.RemoveDone(last_->flight.ended);
  } else {
    scheduler_.RemoveDone();
  }
  stats_.used_blocks = scheduler_.pool().num_used();
  stats_.running_sequences = scheduler_.num_running_rows();
}

StepReport GenerateLoop::DescribeStep() const {
  const StepBuilder& step = scheduler_.step();
  StepReport report;
  report.phase = step.num_prefill_tokens() == 0 ? StepReport::Phase::kDecode
                 : step.num_decode_rows() == 0  ? StepReport::Phase::kPrefill
                                                : StepReport::Phase::kMixed;
  report.num_tokens = scheduler_.num_step_tokens();
  report.num_sequences = step.step_batch().num_sequences();
  return report;
}

void GenerateLoop::Report(LaunchedStep& step) {
  const Clock::time_point now = Clock::now();
  // A step launched behind another one begins when that one is done.
  step.report.duration = now - std::max(step.started, last_landing_);
  last_landing_ = now;
  ++stats_.steps;
  if (observer_ != nullptr) observer_->OnStep(options_.model, step.report);
}

}  // namespace beamline
