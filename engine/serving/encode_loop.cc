#include "engine/serving/encode_loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
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
namespace {

// Keeps a prefix of the dimensions of each vector, made a unit vector again or not.
void Truncate(Embedding& embedding, int32_t dimensions, bool normalize) {
  if (dimensions == 0 || dimensions == embedding.dimensions) return;
  std::vector<float> kept;
  kept.reserve(static_cast<size_t>(embedding.num_vectors) * dimensions);
  for (int32_t v = 0; v < embedding.num_vectors; ++v) {
    const float* vector = embedding.values.data() + static_cast<size_t>(v) * embedding.dimensions;
    double squares = 0.0;
    for (int32_t d = 0; d < dimensions; ++d) squares += static_cast<double>(vector[d]) * vector[d];
    const double scale = normalize && squares > 0.0 ? 1.0 / std::sqrt(squares) : 1.0;
    for (int32_t d = 0; d < dimensions; ++d) kept.push_back(static_cast<float>(vector[d] * scale));
  }
  embedding.values = std::move(kept);
  embedding.dimensions = dimensions;
}

// Makes unit vectors of rows of `width`.
void Normalize(std::vector<float>& rows, size_t width) {
  constexpr double kLeastNorm = 1e-12;  // torch.nn.functional.normalize's
  for (size_t begin = 0; begin < rows.size(); begin += width) {
    const auto row = std::span(rows).subspan(begin, width);
    double squares = 0.0;
    for (const float value : row) squares += static_cast<double>(value) * value;
    const double norm = std::max(std::sqrt(squares), kLeastNorm);
    for (float& value : row) value = static_cast<float>(value / norm);
  }
}

// What logits of an input's or a token's classes become, in double precision.
void Apply(ScoreFunction function, std::span<float> logits) {
  if (function == ScoreFunction::kNone || logits.empty()) return;
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  for (float& value : logits) {
    value = static_cast<float>(function == ScoreFunction::kSoftmax
                                   ? std::exp(value - largest) / sum
                                   : 1.0 / (1.0 + std::exp(-static_cast<double>(value))));
  }
}

bool ArePooledAlike(const EncodeSlice& a, const EncodeSlice& b) {
  return b.job->masks.empty() && a.job->per_token == b.job->per_token &&
         a.job->normalize == b.job->normalize &&
         (a.job->per_token || a.job->pooling == b.job->pooling);
}

// The likeliest tokens by their logits, at most `count`, of equal ones the smaller id; all ids
// count or, where there are any, the targets alone. Probabilities are of all ids.
std::vector<std::pair<int32_t, float>> Likeliest(std::span<const float> logits, int32_t count,
                                                 const TokenIds& targets) {
  const double largest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  TokenIds ids = targets;
  if (ids.empty()) {
    ids.resize(logits.size());
    std::iota(ids.begin(), ids.end(), 0);
  }
  const auto logit_of = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  const auto best = ids.begin() + std::min<std::ptrdiff_t>(count, std::ssize(ids));
  std::partial_sort(ids.begin(), best, ids.end(), [&](int32_t a, int32_t b) {
    return logit_of(a) != logit_of(b) ? logit_of(a) > logit_of(b) : a < b;
  });
  std::vector<std::pair<int32_t, float>> likeliest;
  for (auto id = ids.begin(); id != best; ++id) {
    likeliest.emplace_back(*id, static_cast<float>(std::exp(logit_of(*id) - largest) / sum));
  }
  return likeliest;
}

}  // namespace

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
  if (vectors_.capacity() > kMostKept) vectors_ = {};
  RemoveFinished();
}

void EncodeLoop::StepOfBatch(Clock::time_point now) {
  if (long_.has_value()) SetShareOfLong();
  const EncoderBatch& batch = builder_.batch();
  const absl::Status status =
      Read({context().transformer.Encode(batch), batch.offsets}, builder_.slices());
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
    status = Read({input.hidden(), offsets}, {&slice, 1});
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

absl::Status EncodeLoop::Read(const EncodedRows& rows, std::span<const EncodeSlice> slices) {
  for (auto begin = slices.begin(); begin != slices.end();) {
    if (!begin->job->masks.empty()) {
      BEAMLINE_RETURN_IF_ERROR(FillMasks(rows, *begin++));
      continue;
    }
    const auto end = std::find_if_not(begin, slices.end(), [&](const EncodeSlice& slice) {
      return ArePooledAlike(*begin, slice);
    });
    std::vector<float>& vectors = vectors_;
    BEAMLINE_RETURN_IF_ERROR(Pool(rows, {begin, end}, vectors));
    auto dimensions = static_cast<int32_t>(rows.hidden.dim(-1));
    if (ClassifierHead* const head = context().classifier; head != nullptr) {
      BEAMLINE_ASSIGN_OR_RETURN(vectors, head->Compute(vectors));
      dimensions = head->num_labels();
    }
    if (PassesDense(*begin->job)) {
      BEAMLINE_ASSIGN_OR_RETURN(vectors, context().dense->Compute(vectors));
      dimensions = context().dense->size();
      if (begin->job->normalize) Normalize(vectors, static_cast<size_t>(dimensions));
    }
    const float* values = vectors.data();
    for (; begin != end; ++begin) values = Take(*begin, dimensions, values);
  }
  return absl::OkStatus();
}

absl::Status EncodeLoop::Pool(const EncodedRows& rows, std::span<const EncodeSlice> slices,
                              std::vector<float>& vectors) {
  const EncodeJob& job = *slices.front().job;
  const EncodeSlice& last = slices.back();
  const auto first = static_cast<size_t>(slices.front().first);
  std::span<const int32_t> bounds = rows.offsets.subspan(
      first, static_cast<size_t>(last.first) + (last.end - last.begin) + 1 - first);
  if (job.per_token) {  // one vector per token is a mean over single tokens
    bounds_.resize(static_cast<size_t>(bounds.back() - bounds.front()) + 1);
    std::iota(bounds_.begin(), bounds_.end(), bounds.front());
    bounds = bounds_;
  }
  return PoolRows(rows.hidden, bounds, job.per_token ? Pooling::kMean : job.pooling,
                  job.normalize && !PassesDense(job), vectors);
}

bool EncodeLoop::PassesDense(const EncodeJob& job) const {
  return context().dense != nullptr && !job.per_token;
}

absl::Status EncodeLoop::PoolRows(const Tensor& hidden, std::span<const int32_t> bounds,
                                  Pooling pooling, bool normalize, std::vector<float>& vectors) {
  const size_t num_rows = bounds.size() - 1;
  const auto width = static_cast<size_t>(hidden.dim(-1));
  vectors.resize(num_rows * width);
  for (size_t row = 0; row < num_rows;) {
    const size_t count = std::min(num_rows - row, static_cast<size_t>(most_rows_));
    const auto part = bounds.subspan(row, count + 1);
    pooled_.offsets.assign(part.begin(), part.end());
    const Tensor pooled = context().transformer.Pool(pooled_, hidden, pooling, normalize);
    BEAMLINE_RETURN_IF_ERROR(context().backend.CopyToHost(pooled.data, vectors.data() + row * width,
                                                          count * width * sizeof(float)));
    row += count;
  }
  return absl::OkStatus();
}

absl::Status EncodeLoop::FillMasks(const EncodedRows& encoded, const EncodeSlice& slice) {
  EncodeJob& job = *slice.job;
  // A mask is a mean over itself; what lies between two of them is pooled as well, into a row that
  // nobody reads.
  std::vector<int32_t> bounds;
  std::vector<size_t> rows;  // of the masks
  for (size_t i = slice.begin; i < slice.end; ++i) {
    const int32_t first = encoded.offsets[static_cast<size_t>(slice.first) + i - slice.begin];
    for (const int32_t position : job.masks[i]) {
      if (bounds.empty() || bounds.back() != first + position) bounds.push_back(first + position);
      rows.push_back(bounds.size() - 1);
      bounds.push_back(first + position + 1);
    }
  }
  std::vector<float> vectors;
  BEAMLINE_RETURN_IF_ERROR(
      PoolRows(encoded.hidden, bounds, Pooling::kMean, /*normalize=*/false, vectors));
  const auto width = static_cast<size_t>(encoded.hidden.dim(-1));
  for (size_t mask = 0; mask < rows.size(); ++mask) {  // to the front, one behind the other
    std::copy_n(vectors.begin() + static_cast<std::ptrdiff_t>(rows[mask] * width), width,
                vectors.begin() + static_cast<std::ptrdiff_t>(mask * width));
  }
  vectors.resize(rows.size() * width);
  std::vector<std::vector<std::pair<int32_t, float>>> likeliest(rows.size());
  bool is_finite = true;
  BEAMLINE_RETURN_IF_ERROR(
      context().mask_head->Compute(vectors, [&](size_t row, std::span<const float> logits) {
        is_finite = is_finite && AreFinite(logits);
        if (is_finite) likeliest[row] = Likeliest(logits, job.top_k, job.targets);
      }));
  if (!is_finite) {
    job.Answer(NotFiniteError(context().model, context().dtype));
    return absl::OkStatus();
  }
  job.filled.resize(job.inputs.size());
  auto next = likeliest.begin();
  for (size_t i = slice.begin; i < slice.end; ++i) {
    job.embeddings[i].num_tokens = static_cast<int32_t>(job.inputs[i].size());
    for (const int32_t position : job.masks[i]) {
      job.filled[i].push_back({position, std::move(*next++)});
    }
  }
  return absl::OkStatus();
}

const float* EncodeLoop::Take(const EncodeSlice& slice, int32_t dimensions, const float* values) {
  const float* const begin = values;
  for (size_t i = slice.begin; i < slice.end; ++i) {
    Embedding& embedding = slice.job->embeddings[i];
    embedding.num_tokens = static_cast<int32_t>(slice.job->inputs[i].size());
    if (slice.job->per_token) embedding.num_vectors = embedding.num_tokens;
    embedding.dimensions = dimensions;
    const float* const end = values + int64_t{embedding.num_vectors} * dimensions;
    embedding.values.assign(values, end);
    values = end;
    Truncate(embedding, slice.job->dimensions, slice.job->renormalize);
    const auto width = static_cast<size_t>(embedding.dimensions);
    for (size_t row = 0; row < embedding.values.size(); row += width) {
      Apply(slice.job->function, std::span(embedding.values).subspan(row, width));
    }
  }
  if (!AreFinite({begin, values}))
    slice.job->Answer(NotFiniteError(context().model, context().dtype));
  return values;
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
