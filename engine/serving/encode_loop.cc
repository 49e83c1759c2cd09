#include "engine/serving/encode_loop.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/scheduling/waiting_order.h"
#include "engine/serving/finite_check.h"

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

}  // namespace

void EncodeLoop::Run() {
  while (Receive(/*wait=*/jobs_.empty(), jobs_)) {
    const Clock::time_point now = Clock::now();
    EndOverdue(now, jobs_);
    RemoveFinished();
    Sort(now);
    BuildBatch(now);
    if (!slices_.empty()) {
      if (absl::Status status = Compute(); status.ok()) {
        FinishCompleteJobs();
      } else {
        FailStep(status, jobs_);
      }
      ReportBatch(now);
    }
    RemoveFinished();
  }
  jobs_.FailAll(context().fault.EndStatus());
  RemoveFinished();
}

void EncodeLoop::Sort(Clock::time_point now) {
  WaitingOrder order(now);
  for (const auto& job : jobs_.jobs()) order.Add(job->rank);
  std::ranges::stable_sort(jobs_.jobs(),
                           [&](const auto& a, const auto& b) { return order(a->rank, b->rank); });
}

void EncodeLoop::BuildBatch(Clock::time_point now) {
  batch_.token_ids.clear();
  batch_.offsets.assign(1, 0);
  slices_.clear();
  const auto full = [this](const TokenIds& input) {
    return batch_.num_sequences() == limits_.max_sequences ||
           static_cast<int64_t>(batch_.token_ids.size() + input.size()) > limits_.max_batch_tokens;
  };
  for (const auto& job : jobs_.jobs()) {
    const size_t begin = job->num_started;
    const int32_t first = batch_.num_sequences();
    while (job->num_started < job->inputs.size() && !full(job->inputs[job->num_started])) {
      const TokenIds& input = job->inputs[job->num_started++];
      jobs_.Begin(*job, now);
      job->rank.fair_tag += static_cast<int64_t>(input.size());
      batch_.token_ids.insert(batch_.token_ids.end(), input.begin(), input.end());
      batch_.offsets.push_back(static_cast<int32_t>(batch_.token_ids.size()));
    }
    if (job->num_started > begin) slices_.push_back({job.get(), begin, job->num_started, first});
    if (job->num_started < job->inputs.size()) break;  // nobody passes the one that is next
  }
}

absl::Status EncodeLoop::Compute() {
  const Tensor hidden = context().transformer.Encode(batch_);
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
  const Tensor pooled =
      context().transformer.Pool(part, hidden, slice.job->pooling, slice.job->normalize);
  // All in one transfer: each one waits for the device.
  std::vector<float> values(static_cast<size_t>(pooled.num_elements()));
  BEAMLINE_RETURN_IF_ERROR(
      context().backend.CopyToHost(pooled.data, values.data(), values.size() * sizeof(float)));
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
    const Tensor vectors =
        context().transformer.Pool(tokens, hidden, Pooling::kMean, slice.job->normalize);
    Embedding& embedding = slice.job->embeddings[i];
    embedding.num_vectors = embedding.num_tokens = tokens.num_sequences();
    embedding.dimensions = static_cast<int32_t>(vectors.dim(-1));
    embedding.values.resize(static_cast<size_t>(vectors.num_elements()));
    BEAMLINE_RETURN_IF_ERROR(context().backend.CopyToHost(vectors.data, embedding.values.data(),
                                                          embedding.values.size() * sizeof(float)));
    if (!CheckFinite(slice, embedding.values)) return absl::OkStatus();
    Truncate(embedding, slice.job->dimensions, slice.job->renormalize);
  }
  return absl::OkStatus();
}

bool EncodeLoop::CheckFinite(const Slice& slice, std::span<const float> values) {
  if (AreFinite(values)) return true;
  slice.job->Answer(NotFiniteError(context().model));
  return false;
}

void EncodeLoop::FinishCompleteJobs() {
  const Clock::time_point now = Clock::now();
  for (const Slice& slice : slices_) {
    if (!slice.job->done && slice.end == slice.job->inputs.size()) slice.job->Finish(now);
  }
}

void EncodeLoop::RemoveFinished() {
  jobs_.RemoveDone([](std::unique_ptr<EncodeJob>) {});
}

void EncodeLoop::ReportBatch(Clock::time_point started) {
  stats().encoded_tokens += batch_.token_ids.size();
  Report({.phase = StepReport::Phase::kEncode,
          .duration = Clock::now() - started,
          .num_tokens = static_cast<int32_t>(batch_.token_ids.size()),
          .num_sequences = batch_.num_sequences()});
}

}  // namespace beamline
