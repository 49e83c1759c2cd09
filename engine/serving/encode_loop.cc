#include "engine/serving/encode_loop.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/scheduling/waiting_order.h"
#include "engine/serving/finite_check.h"

namespace beamline {
namespace {

int64_t NumTokens(std::span<const TokenIds> inputs) {
  int64_t tokens = 0;
  for (const TokenIds& input : inputs) tokens += static_cast<int64_t>(input.size());
  return tokens;
}

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

}  // namespace

EncodeLoop::EncodeLoop(const EncodeLoopOptions& options, Transformer& transformer, Backend& backend,
                       ReplicaStats& stats, ReplicaFault& fault, EngineObserver* observer)
    : options_(options),
      transformer_(transformer),
      backend_(backend),
      stats_(stats),
      fault_(fault),
      observer_(observer) {}

void EncodeLoop::Run() {
  while (true) {
    Receive();
    if (!open_) break;
    const Clock::time_point now = Clock::now();
    EndOverdue(now);
    Sort(now);
    BuildBatch(now);
    if (!slices_.empty()) {
      if (absl::Status status = Compute(); status.ok()) {
        FinishCompleteJobs();
      } else {
        FailStep(status);
      }
      Report(now);
    }
    RemoveFinished();
  }
  for (const auto& job : jobs_) Fail(*job, fault_.EndStatus());
  RemoveFinished();
}

void EncodeLoop::Receive() {
  open_ = inbox_.Take(/*wait=*/jobs_.empty(), received_);
  for (std::unique_ptr<EncodeJob>& job : received_) {
    job->embeddings.resize(job->inputs.size());
    job->fair_tag = fair_queue_.Enter(job->client, NumTokens(job->inputs));
    jobs_.push_back(std::move(job));
  }
}

void EncodeLoop::EndOverdue(Clock::time_point now) {
  for (const auto& job : jobs_) {
    if (job->cancelled->load(std::memory_order_relaxed)) {
      ++stats_.cancelled;
      Fail(*job, absl::CancelledError("cancelled by the client"));
    } else if (job->deadline.has_value() && *job->deadline <= now) {
      Fail(*job, absl::DeadlineExceededError("the deadline passed before the answer was complete"));
    }
  }
  RemoveFinished();
}

void EncodeLoop::Sort(Clock::time_point now) {
  const auto rank = [](const auto& job) {
    return WaitingRank{job->priority, job->fair_tag, job->arrival};
  };
  WaitingOrder order(now, options_.ageing);
  for (const auto& job : jobs_) order.Add(rank(job));
  std::stable_sort(jobs_.begin(), jobs_.end(),
                   [&](const auto& a, const auto& b) { return order(rank(a), rank(b)); });
}

void EncodeLoop::BuildBatch(Clock::time_point now) {
  batch_.token_ids.clear();
  batch_.offsets.assign(1, 0);
  slices_.clear();
  const auto full = [this](const TokenIds& input) {
    return batch_.num_sequences() == options_.max_sequences ||
           static_cast<int64_t>(batch_.token_ids.size() + input.size()) > options_.max_batch_tokens;
  };
  for (const auto& job : jobs_) {
    const size_t begin = job->num_started;
    const int32_t first = batch_.num_sequences();
    while (job->num_started < job->inputs.size() && !full(job->inputs[job->num_started])) {
      const TokenIds& input = job->inputs[job->num_started++];
      fair_queue_.Begin(job->fair_tag);
      job->fair_tag += static_cast<int64_t>(input.size());
      batch_.token_ids.insert(batch_.token_ids.end(), input.begin(), input.end());
      batch_.offsets.push_back(static_cast<int32_t>(batch_.token_ids.size()));
    }
    if (job->num_started > begin) slices_.push_back({job.get(), begin, job->num_started, first});
    if (job->queue_time.count() < 0 && job->num_started > 0) {
      job->queue_time = now - job->arrival;
      --stats_.waiting_requests;
    }
    if (job->num_started < job->inputs.size()) break;  // nobody passes the one that is next
  }
}

absl::Status EncodeLoop::Compute() {
  const Tensor hidden = transformer_.Encode(batch_);
  for (const Slice& slice : slices_) {
    BEAMLINE_RETURN_IF_ERROR(slice.job->per_token ? ReadTokens(hidden, slice)
                                                  : ReadPooled(hidden, slice));
  }
  return absl::OkStatus();
}

absl::Status EncodeLoop::ReadPooled(const Tensor& hidden, const Slice& slice) {
  // Every slice pools for itself: requests differ in how, and pooling is cheap beside the encoder.
  EncoderBatch part;
  part.offsets.assign(batch_.offsets.begin() + slice.first,
                      batch_.offsets.begin() + slice.first +
                          static_cast<std::ptrdiff_t>(slice.end - slice.begin) + 1);
  const Tensor pooled = transformer_.Pool(part, hidden, slice.job->pooling, slice.job->normalize);
  // All in one transfer: each one waits for the device.
  std::vector<float> values(static_cast<size_t>(pooled.num_elements()));
  BEAMLINE_RETURN_IF_ERROR(
      backend_.CopyToHost(pooled.data, values.data(), values.size() * sizeof(float)));
  if (!CheckFinite(slice, values)) return absl::OkStatus();
  auto row = values.cbegin();
  for (size_t i = slice.begin; i < slice.end; ++i, row += pooled.dim(-1)) {
    Embedding& embedding = slice.job->embeddings[i];
    embedding.num_tokens = static_cast<int32_t>(slice.job->inputs[i].size());
    embedding.dimensions = static_cast<int32_t>(pooled.dim(-1));
    embedding.values.assign(row, row + pooled.dim(-1));
    Truncate(embedding, slice.job->dimensions, slice.job->renormalize);
  }
  return absl::OkStatus();
}

absl::Status EncodeLoop::ReadTokens(const Tensor& hidden, const Slice& slice) {
  // One vector per token is a mean over single tokens.
  for (size_t i = slice.begin; i < slice.end; ++i) {
    const auto sequence = slice.first + static_cast<int32_t>(i - slice.begin);
    EncoderBatch tokens;
    for (int32_t token = batch_.offsets[sequence]; token <= batch_.offsets[sequence + 1]; ++token) {
      tokens.offsets.push_back(token);
    }
    const Tensor vectors = transformer_.Pool(tokens, hidden, Pooling::kMean, slice.job->normalize);
    Embedding& embedding = slice.job->embeddings[i];
    embedding.num_vectors = embedding.num_tokens = tokens.num_sequences();
    embedding.dimensions = static_cast<int32_t>(vectors.dim(-1));
    embedding.values.resize(static_cast<size_t>(vectors.num_elements()));
    BEAMLINE_RETURN_IF_ERROR(backend_.CopyToHost(vectors.data, embedding.values.data(),
                                                 embedding.values.size() * sizeof(float)));
    if (!CheckFinite(slice, embedding.values)) return absl::OkStatus();
    Truncate(embedding, slice.job->dimensions, slice.job->renormalize);
  }
  return absl::OkStatus();
}

bool EncodeLoop::CheckFinite(const Slice& slice, std::span<const float> values) {
  if (AreFinite(values)) return true;
  Fail(*slice.job, NotFiniteError(options_.model));
  return false;
}

void EncodeLoop::FinishCompleteJobs() {
  const Clock::time_point now = Clock::now();
  for (const Slice& slice : slices_) {
    EncodeJob& job = *slice.job;
    if (job.sink == nullptr || slice.end < job.inputs.size()) continue;
    EncodeResult result;
    result.usage.prompt_tokens = static_cast<int32_t>(NumTokens(job.inputs));
    result.embeddings = std::move(job.embeddings);
    result.timing.queue = job.queue_time;
    result.timing.total = now - job.arrival;
    job.sink->OnFinish(std::move(result));
    job.sink = nullptr;
  }
}

void EncodeLoop::FailStep(const absl::Status& error) {
  const absl::Status fault = fault_.Examine(backend_);
  if (!fault.ok()) inbox_.Close();
  for (const auto& job : jobs_) Fail(*job, fault.ok() ? error : fault);
}

void EncodeLoop::Fail(EncodeJob& job, const absl::Status& status) {
  if (job.sink == nullptr) return;
  job.sink->OnFinish(status);
  job.sink = nullptr;
}

void EncodeLoop::RemoveFinished() {
  std::erase_if(jobs_, [this](const std::unique_ptr<EncodeJob>& job) {
    if (job->sink != nullptr) return false;
    fair_queue_.Leave(job->client);
    if (job->queue_time.count() < 0) --stats_.waiting_requests;
    return true;
  });
}

void EncodeLoop::Report(Clock::time_point started) {
  stats_.encoded_tokens += batch_.token_ids.size();
  ++stats_.steps;
  if (observer_ == nullptr) return;
  StepReport report;
  report.phase = StepReport::Phase::kEncode;
  report.duration = Clock::now() - started;
  report.num_tokens = static_cast<int32_t>(batch_.token_ids.size());
  report.num_sequences = batch_.num_sequences();
  observer_->OnStep(options_.model, report);
}

}  // namespace beamline
