#include "engine/serving/generate_loop.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "engine/serving/finite_check.h"

namespace beamline {

GenerateLoop::GenerateLoop(const GenerateLoopOptions& options, const LoopContext& context)
    : StepLoop(context),
      scheduler_(options.limits, options.num_blocks, options.share_prefixes),
      selectors_{Selector(context.backend), Selector(context.backend)} {
  stats().total_blocks = options.num_blocks;
}

void GenerateLoop::Run() {
  while (true) {
    // A device that waits already gets its next step first: reading takes the host as long as
    // launching.
    if (last_.has_value() && !context().backend.Records() && last_->selector->Done()) LandLast();
    if (!Receive(/*wait=*/scheduler_.empty() && !last_.has_value(), scheduler_.jobs())) break;
    const Clock::time_point now = Clock::now();
    EndOverdue(now, scheduler_.jobs());
    RemoveFinished();
    if (last_.has_value() && !RunAhead()) LandLast();
    std::optional<LaunchedStep> earlier = std::exchange(last_, std::nullopt);
    last_ = Launch(now, earlier);
    if (earlier.has_value()) Land(*earlier, last_.has_value() ? &last_->flight : nullptr);
    RemoveFinished();
  }
  scheduler_.jobs().FailAll(context().fault.EndStatus());
  if (last_.has_value()) LandLast();
  RemoveFinished();
}

void GenerateLoop::CountStep() {
  stats().prompt_tokens += scheduler_.step().num_prefill_tokens();
  stats().cached_prompt_tokens += scheduler_.num_cached_tokens();
  stats().preemptions += scheduler_.num_preempted();
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
  Transformer& transformer = context().transformer;
  if (!built.copies().empty()) transformer.CopyBlocks(built.copies());
  if (built.encoder_batch().num_sequences() > 0) transformer.EncodeMemory(built.encoder_batch());
  Tensor logits;
  if (built.step_batch().num_sequences() > 0) logits = transformer.Decode(built.step_batch());
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
  ReportLanding(step);
}

void GenerateLoop::AdvanceGroup(LaunchedStep& step, size_t range, Flight* next) {
  Group& group = *step.flight.ranges[range].group;
  const std::span<const RowResult> results =
      LiveResults(step.flight, range, step.selector->results(), live_results_);
  if (!AreFinite(results)) {
    group.Answer(NotFiniteError(context().model));
    scheduler_.ForgetPrefixes();
    return;
  }
  const std::vector<Continuation> continuations = group.decoder->Advance(results);
  const int32_t generated = group.decoder->num_generated_tokens();
  if (generated > 0 && group.first_token_time.count() < 0) {
    group.first_token_time = Clock::now() - group.rank.arrival;
  }
  stats().generated_tokens += std::max(0, generated - group.counted_tokens);
  group.counted_tokens = std::max(generated, group.counted_tokens);
  if (group.decoder->finished()) {
    group.Finish(Clock::now());
    return;
  }
  if (const int32_t search = step.flight.searches[range]; search >= 0) {
    const BeamWords words = step.selector->SearchWords(search);
    const auto width = static_cast<size_t>(group.decoder->max_rows());
    if (!ChoseTheSame(step.flight, range, continuations,
                      step.selector->HostInts(words.parents, width),
                      step.selector->HostInts(words.tokens, width))) {
      group.Answer(
          absl::InternalError("the device went on with other beams than their scores say"));
      return;
    }
  }
  Continue(group, continuations, next, scheduler_);
  group.SendDeltas();
}

void GenerateLoop::FailStep(const absl::Status& error) {
  StepLoop::FailStep(error, scheduler_.jobs());
  scheduler_.ForgetPrefixes();
}

void GenerateLoop::RemoveFinished() {
  if (last_.has_value()) {
    scheduler_.RemoveDone(last_->flight.ended);
  } else {
    scheduler_.RemoveDone();
  }
  stats().used_blocks = scheduler_.pool().num_used();
  stats().running_sequences = scheduler_.num_running_rows();
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

void GenerateLoop::ReportLanding(LaunchedStep& step) {
  const Clock::time_point now = Clock::now();
  // A step launched behind another one begins when that one is done.
  step.report.duration = now - std::max(step.started, last_landing_);
  last_landing_ = now;
  Report(step.report);
}

}  // namespace beamline
