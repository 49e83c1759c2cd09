#include "engine/serving/generate_loop.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/work_batch.h"
#include "engine/runahead/make_device_steps.h"
#include "engine/serving/finite_check.h"

namespace beamline {

GenerateLoop::GenerateLoop(const StepLimits& limits, bool share_prefixes,
                           std::chrono::milliseconds max_gap, const LoopContext& context)
    : StepLoop(context),
      max_sequences_(limits.max_sequences),
      frees_later_(context.backend.Records() && limits.num_lanes == 1),
      piece_(std::chrono::duration<double>(max_gap).count(), limits.max_batch_tokens),
      scheduler_(limits, share_prefixes,
                 context.transformer.spec().decoder->rotary.original_positions),
      decode_threads_(DecodeThreadsFor(context.backend)),
      pipeline_(MakeDeviceSteps(context.transformer, context.backend), scheduler_,
                decode_threads_.parallel()) {
  stats().total_blocks = limits.num_blocks;
}

void GenerateLoop::Run() {
  WorkBatch posted;  // of all that sinks post
  while (true) {
    // A device that waits already gets its next step first: reading takes the host as long as
    // launching.
    if (!context().backend.Records() && pipeline_.EarliestIsDone()) Land();
    const bool wait = scheduler_.empty() && pipeline_.empty();
    if (wait) FreeEnded();
    if (!Receive(wait, posted, scheduler_.jobs())) break;
    const Clock::time_point now = Clock::now();
    // Something that runs shows how long requests take: only then is one given up for that.
    const bool runs = stats().running_sequences > 0;
    const double step_seconds = EndOverdue(now, scheduler_.jobs(), /*may_give_up=*/runs);
    SetWidth(width_.Within(step_seconds, max_sequences_));
    scheduler_.SetPromptTokens(
        {.beside_decoding = piece_.BesideDecoding(), .alone = piece_.Alone()});
    RemoveFinished();
    if (!pipeline_.PrepareLaunch()) Land();
    posted.HandOver();
    Launch(now);
    if (pipeline_.MustLand()) {
      Land();
    } else {
      RemoveFinished();
    }
  }
  scheduler_.jobs().FailAll(context().fault.EndStatus());
  while (!pipeline_.empty()) Land();
  RemoveFinished();
}

void GenerateLoop::SetWidth(int32_t width) {
  scheduler_.SetWidth(width);
  stats().width = width;
  const int64_t ready = stats().running_sequences + int64_t{scheduler_.num_waiting()};
  const auto next = static_cast<int32_t>(std::min<int64_t>(width, ready));
  const auto pace = width_.PaceOf(width), next_pace = width_.PaceOf(next);
  stats().service.Expect(pace.has_value() ? pace->tokens_per_second : 0,
                         next_pace.has_value() ? next_pace->step_seconds : 0);
}

void GenerateLoop::Launch(Clock::time_point now) {
  const absl::StatusOr<bool> launched = pipeline_.Launch(now);
  SetLeftWaiting(scheduler_.num_waiting() > 0);
  if (launched.ok() && !*launched) return;
  CountStep();
  if (!launched.ok()) FailStep(launched.status());
}

void GenerateLoop::Land() {
  FreeEnded();
  const absl::StatusOr<StepReport> landed = pipeline_.Land(
      [](Group& group, std::span<const RowResult> results) { return Decode(group, results); },
      [this](Group& group, const Pipeline::Progress& progress) { Advance(group, progress); });
  if (landed.ok()) {
    const double seconds = std::chrono::duration<double>(landed->duration).count();
    width_.AddStep(landed->num_sequences, landed->num_tokens, seconds);
    piece_.AddStep(landed->num_prompt_tokens, landed->num_tokens - landed->num_prompt_tokens,
                   seconds);
    Report(*landed);
  } else {
    FailStep(landed.status());
  }
  RemoveFinished();
}

std::optional<std::span<const Continuation>> GenerateLoop::Decode(
    Group& group, std::span<const RowResult> results) {
  if (!AreFinite(results)) return std::nullopt;
  return group.decoder->Advance(results);
}

void GenerateLoop::Advance(Group& group, const Pipeline::Progress& progress) {
  if (!progress.decoded) {
    group.Answer(NotFiniteError(context().model, context().dtype));
    scheduler_.ForgetPrefixes();
    return;
  }
  const int32_t generated = progress.num_generated_tokens;
  if (generated > 0 && group.first_token_time.count() < 0) {
    group.first_token_time = Clock::now() - group.rank.arrival;
  }
  stats().generated_tokens += std::max(0, generated - group.counted_tokens);
  group.counted_tokens = std::max(generated, group.counted_tokens);
  CountServed(group.work.Reach(group.prompt_tokens + progress.num_computed_tokens));
  if (progress.finished) {
    const Clock::time_point now = Clock::now();
    CountAnswer(group, now);
    group.Finish(now);
  } else {
    group.SendDeltas();
  }
}

void GenerateLoop::CountStep() {
  stats().prompt_tokens += scheduler_.step().num_prefill_tokens();
  stats().cached_prompt_tokens += scheduler_.num_cached_tokens();
  stats().preemptions += scheduler_.num_preempted();
}

void GenerateLoop::FailStep(const absl::Status& error) {
  StepLoop::FailStep(error, scheduler_.jobs());
  scheduler_.ForgetPrefixes();
}

void GenerateLoop::RemoveFinished() {
  pipeline_.RemoveDone();
  if (!frees_later_) pipeline_.FreeEnded([] { return true; });
  stats().used_blocks = scheduler_.pool().num_used();
  stats().running_sequences = scheduler_.num_running_rows();
}

void GenerateLoop::FreeEnded() {
  if (!frees_later_ || num_received() > kBurst) return;
  pipeline_.FreeEnded(
      [this] { return pipeline_.empty() ? !inbox().HasSomething() : !pipeline_.EarliestIsDone(); });
}

}  // namespace beamline
