#include "engine/serving/encode_loop.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "base/work_batch.h"
#include "engine/serving/finite_check.h"
#include "engine/transformer/long_input.h"

namespace beamline {

void EncodeLoop::Run() {
  WorkBatch posted;  // of all that sinks post
  while (Receive(/*wait=*/jobs_.empty(), posted, jobs_)) Step(posted);
  jobs_.FailAll(context().fault.EndStatus());
  RemoveFinished();
}

void EncodeLoop::RunInPlace(absl::FunctionRef<bool()> may_compute) {
  WorkBatch posted;
  for (int step = 0; step < kMostStepsInPlace && may_compute(); ++step) {
    if (!Receive(/*wait=*/false, posted, jobs_)) break;
    Step(posted);
    posted.RunWhile([] { return true; });
    if (jobs_.empty() && inbox().TryGiveBack()) return;
  }
  inbox().GiveBack();
}

void EncodeLoop::Step(WorkBatch& posted) {
  const Clock::time_point now = received_at();
  EndOverdue(now, jobs_, /*may_give_up=*/HasBegun());
  RemoveFinished();
  posted.HandOver();
  if (!long_.has_value() || !long_is_next_) {
    builder_.SetMostWhole(MostWhole());
    builder_.Build(jobs_, now, StepTokens(now), /*takes_long=*/!long_.has_value());
    if (builder_.long_slice().has_value()) BeginLong();
    long_is_next_ = builder_.slices().empty();
  }
  SetLeftWaiting(long_.has_value() || !jobs_.waiting().empty() ||
                 std::ranges::any_of(jobs_.begun(), [](const auto& job) {
                   return job->num_started < job->inputs.size();
                 }));
  if (!std::exchange(long_is_next_, !long_is_next_)) {
    StepOfBatch(now);
  } else if (long_.has_value()) {
    StepOfLong(now);
  }
  RemoveFinished();
}

void EncodeLoop::StepOfBatch(Clock::time_point now) {
  if (long_.has_value()) SetShareOfLong();
  const EncoderBatch& batch = builder_.batch();
  const absl::Status status =
      MakeAnswers({context().transformer.Encode(batch), batch.offsets}, builder_.slices());
  const Clock::time_point end = Clock::now();
  if (status.ok()) {
    FinishCompleteJobs(end);
  } else {
    FailStep(status, jobs_);
  }
  ReportStep(static_cast<int32_t>(batch.token_ids.size()), batch.num_sequences(), now, end);
}

void EncodeLoop::StepOfLong(Clock::time_point now) {
  LongInput& input = *context().transformer.long_input();
  const EncodeSlice slice = long_->slice;
  const LongInput::Progress progress = input.Advance(TokensOfSlice());
  const int32_t num_tokens =
      progress.num_tokens - std::exchange(long_->num_computed, progress.num_tokens);
  long_->share = LongJob().share;
  const bool is_done = input.done();
  absl::Status status = context().backend.Synchronize();
  const std::chrono::duration<double> computing = Clock::now() - now;
  long_rate_.Add(progress.cost, computing.count());
  if (status.ok() && is_done) {
    const int32_t offsets[] = {0, progress.num_tokens};
    status = MakeAnswers({input.hidden(), offsets}, {&slice, 1});
  }
  if (is_done) long_.reset();
  const Clock::time_point end = Clock::now();
  if (status.ok()) {
    CountComputed(*slice.job, num_tokens, is_done ? 1 : 0, end);
  } else {
    FailStep(status, jobs_);
  }
  ReportStep(num_tokens, 1, now, end);
}

int32_t EncodeLoop::TokensOfSlice() const {
  const double seconds_per_token = long_rate_.seconds_per_token();
  if (seconds_per_token <= 0) return 1;  // one piece tells
  const double most = static_cast<double>(std::min<int64_t>(long_->share, most_tokens_));
  return static_cast<int32_t>(std::clamp(kSecondsOfSlice / seconds_per_token, 1.0, most));
}

void EncodeLoop::BeginLong() {
  const EncodeSlice& slice = long_.emplace(LongJob{*builder_.long_slice()}).slice;
  context().transformer.long_input()->Begin(slice.job->inputs[slice.begin]);
}

void EncodeLoop::SetShareOfLong() {
  absl::flat_hash_set<std::string_view> others;
  for (const EncodeSlice& slice : builder_.slices()) others.insert(slice.job->client);
  others.erase(long_->slice.job->client);
  if (others.size() < 2) return;
  long_->share = std::max(EncodeStepBuilder::kLeastTokens,
                          std::ssize(builder_.batch().token_ids) / std::ssize(others));
}

int64_t EncodeLoop::StepTokens(Clock::time_point now) {
  if (!has_short_steps_) return std::numeric_limits<int64_t>::max();
  size_t num_added = 0;
  for (const auto& [client, num_jobs] : jobs_.clients()) {
    clients_.Add(client, now);
    if (++num_added == RecentClients::kMost) break;
  }
  return EncodeStepBuilder::TokensOfStep(clients_.Count(now), stats().rate.seconds_per_token());
}

int64_t EncodeLoop::MostWhole() {
  constexpr auto kLeast = static_cast<int32_t>(EncodeStepBuilder::kLeastTokens);
  const LongInput* const input = context().transformer.long_input();
  const double seconds_per_token = stats().rate.seconds_per_token();
  if (!has_short_steps_ || input == nullptr || seconds_per_token <= 0) return most_tokens_;
  return input->cost().LongestWithin(kSecondsWhole / seconds_per_token,
                                     std::min(kLeast, most_tokens_), most_tokens_);
}

absl::Status EncodeLoop::MakeAnswers(const EncodedRows& rows, std::span<const EncodeSlice> slices) {
  parts_.clear();
  for (const auto& [job, begin, end, first] : slices) {
    parts_.push_back({.encoding = &job->encoding,
                      .inputs = job->embeddings,
                      .begin = begin,
                      .end = end,
                      .first = first});
  }
  BEAMLINE_RETURN_IF_ERROR(finish_.Finish(rows, parts_));
  for (size_t i = 0; i < slices.size(); ++i) {
    EncodeJob& job = *slices[i].job;
    for (size_t input = slices[i].begin; input < slices[i].end; ++input) {
      job.embeddings[input].num_tokens = static_cast<int32_t>(job.inputs[input].size());
    }
    if (!parts_[i].is_finite) job.Answer(NotFiniteError(context().model, context().dtype));
  }
  return absl::OkStatus();
}

void EncodeLoop::FinishCompleteJobs(Clock::time_point now) {
  for (const EncodeSlice& slice : builder_.slices()) {
    int64_t num_tokens = 0;
    for (size_t i = slice.begin; i < slice.end; ++i) {
      num_tokens += static_cast<int64_t>(slice.job->inputs[i].size());
    }
    CountComputed(*slice.job, num_tokens, slice.end - slice.begin, now);
  }
}

void EncodeLoop::CountComputed(EncodeJob& job, int64_t num_tokens, size_t num_inputs,
                               Clock::time_point now) {
  if (job.done) return;
  job.computed_tokens += num_tokens;
  job.num_computed += num_inputs;
  CountServed(job.work.Reach(job.computed_tokens));
  if (job.num_computed < job.inputs.size()) return;
  CountAnswer(job, now);
  job.Finish(now);
}

bool EncodeLoop::HasBegun() const { return !jobs_.begun().empty(); }

void EncodeLoop::RemoveFinished() {
  if (long_.has_value() && long_->slice.job->done) long_.reset();
  jobs_.RemoveDone([](std::unique_ptr<EncodeJob>) {});
}

void EncodeLoop::ReportStep(int32_t num_tokens, int32_t num_sequences, Clock::time_point started,
                            Clock::time_point ended) {
  stats().encoded_tokens += static_cast<uint64_t>(num_tokens);
  Report({.phase = StepReport::Phase::kEncode,
          .duration = ended - started,
          .num_tokens = num_tokens,
          .num_sequences = num_sequences},
         ended);
}

}  // namespace beamline
