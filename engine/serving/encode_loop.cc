#include "engine/serving/encode_loop.h"

#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/work_batch.h"
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
  WorkBatch posted;  // of all that sinks post
  while (Receive(/*wait=*/jobs_.empty(), posted, jobs_)) {
    const Clock::time_point now = Clock::now();
    EndOverdue(now, jobs_);
    RemoveFinished();
    posted.HandOver();
    builder_.Build(jobs_, now);
    if (!builder_.slices().empty()) {
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

absl::Status EncodeLoop::Compute() {
  const Tensor hidden = context().transformer.Encode(builder_.batch());
  for (const EncodeSlice& slice : builder_.slices()) {
    BEAMLINE_RETURN_IF_ERROR(slice.job->per_token ? ReadTokens(hidden, slice)
                                                  : ReadPooled(hidden, slice));
  }
  return absl::OkStatus();
}

absl::Status EncodeLoop::ReadPooled(const Tensor& hidden, const EncodeSlice& slice) {
  // Every slice pools for itself: requests differ in how, and pooling is cheap beside the encoder.
  EncoderBatch part;
  const auto first = builder_.batch().offsets.begin() + slice.first;
  part.offsets.assign(first, first + static_cast<std::ptrdiff_t>(slice.end - slice.begin) + 1);
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

absl::Status EncodeLoop::ReadTokens(const Tensor& hidden, const EncodeSlice& slice) {
  // One vector per token is a mean over single tokens.
  const std::vector<int32_t>& offsets = builder_.batch().offsets;
  for (size_t i = slice.begin; i < slice.end; ++i) {
    const auto sequence = slice.first + static_cast<int32_t>(i - slice.begin);
    EncoderBatch tokens;
    for (int32_t token = offsets[sequence]; token <= offsets[sequence + 1]; ++token) {
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

bool EncodeLoop::CheckFinite(const EncodeSlice& slice, std::span<const float> values) {
  if (AreFinite(values)) return true;
  slice.job->Answer(NotFiniteError(context().model));
  return false;
}

void EncodeLoop::FinishCompleteJobs() {
  const Clock::time_point now = Clock::now();
  for (const EncodeSlice& slice : builder_.slices()) {
    if (!slice.job->done && slice.end == slice.job->inputs.size()) slice.job->Finish(now);
  }
}

void EncodeLoop::RemoveFinished() {
  jobs_.RemoveDone([](std::unique_ptr<EncodeJob>) {});
}

void EncodeLoop::ReportBatch(Clock::time_point started) {
  const EncoderBatch& batch = builder_.batch();
  stats().encoded_tokens += batch.token_ids.size();
  Report({.phase = StepReport::Phase::kEncode,
          .duration = Clock::now() - started,
          .num_tokens = static_cast<int32_t>(batch.token_ids.size()),
          .num_sequences = batch.num_sequences()});
}

}  // namespace beamline
