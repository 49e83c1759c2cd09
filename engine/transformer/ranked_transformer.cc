#include "engine/transformer/ranked_transformer.h"

#include <utility>

#include "base/status.h"
#include "engine/transformer/shard.h"
#include "engine/transformer/stage.h"

namespace beamline {

absl::StatusOr<std::unique_ptr<RankedTransformer>> RankedTransformer::Create(
    const TransformerSpec& spec, const Checkpoint& checkpoint, DType dtype,
    const StepLimits& limits, RankGroup& ranks) {
  BEAMLINE_RETURN_IF_ERROR(CheckDivides(spec, ranks.ranks_per_stage()));
  BEAMLINE_RETURN_IF_ERROR(CheckStages(spec, ranks.num_stages()));
  const std::vector<Stage> stages = DivideLayers(spec, ranks.num_stages());
  // One behind the other, on a thread that may have been told to give way.
  std::vector<std::unique_ptr<Transformer>> parts;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const StagePart stage = {stages[ranks.StageOf(rank)], ranks.stages(rank)};
    BEAMLINE_ASSIGN_OR_RETURN(parts.emplace_back(),
                              Transformer::Create(spec, checkpoint, dtype, limits,
                                                  ranks.backend(rank), ranks.shares(rank), &stage));
  }
  return std::unique_ptr<RankedTransformer>(new RankedTransformer(spec, std::move(parts), ranks));
}

template <typename Work>
Tensor RankedTransformer::OnEveryRank(const Work& work) {
  Tensor of_model;
  // The fault stays with the group.
  static_cast<void>(ranks_.Run([&](int rank) {
    Tensor result;
    const absl::Status status = work(rank, result);
    if (rank == ranks_.result_rank()) of_model = result;
    return status;
  }));
  return of_model;
}

Tensor RankedTransformer::Encode(const EncoderBatch& batch) {
  return OnEveryRank([&](int rank, Tensor& hidden) {
    hidden = parts_[rank]->Encode(batch);
    return absl::OkStatus();
  });
}

Tensor RankedTransformer::EncodeMemory(const EncoderBatch& batch) {
  return OnEveryRank([&](int rank, Tensor& hidden) {
    hidden = parts_[rank]->EncodeMemory(batch);
    return absl::OkStatus();
  });
}

Tensor RankedTransformer::Decode(const StepBatch& batch, const DeviceEdits& edits) {
  return OnEveryRank([&](int rank, Tensor& logits) {
    logits = parts_[rank]->Decode(batch, edits);
    const bool divided = ranks_.shares(rank) != nullptr && rank >= ranks_.result_rank();
    return divided ? GatherLogits(rank, logits, logits) : absl::OkStatus();
  });
}

absl::Status RankedTransformer::GatherLogits(int rank, const Tensor logits, Tensor& whole) {
  whole = Tensor(nullptr, DType::kFloat32, {logits.dim(0), spec_.vocab_size});
  const size_t bytes = static_cast<size_t>(whole.num_elements()) * sizeof(float);
  std::unique_ptr<Buffer>& buffer = gathered_[rank];
  if (buffer == nullptr || buffer->size() < bytes) {
    BEAMLINE_ASSIGN_OR_RETURN(buffer, ranks_.backend(rank).Allocate(bytes));
  }
  whole.data = buffer->data();
  ranks_.communicator(rank).AllGather(logits, whole);
  return absl::OkStatus();
}

Tensor RankedTransformer::Pool(const EncoderBatch& batch, const Tensor& hidden, Pooling pooling,
                               bool normalize) {
  if (hidden.empty()) {  // of a fault, which comes when the result is read
    return Tensor(nullptr, DType::kFloat32, {batch.num_sequences(), spec_.encoder->hidden_size});
  }
  return parts_[ranks_.result_rank()]->Pool(batch, hidden, pooling, normalize);
}

void RankedTransformer::CopyBlocks(std::span<const BlockCopy> copies) {
  OnEveryRank([&](int rank, Tensor&) {
    parts_[rank]->CopyBlocks(copies);
    return absl::OkStatus();
  });
}

int64_t RankedTransformer::weight_bytes() const {
  int64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->weight_bytes();
  return bytes;
}

}  // namespace beamline
