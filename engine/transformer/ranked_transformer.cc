#include "engine/transformer/ranked_transformer.h"

#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "engine/transformer/rank_call.h"
#include "engine/transformer/shard.h"
#include "engine/transformer/stage.h"

namespace beamline {

absl::StatusOr<std::unique_ptr<RankedTransformer>> RankedTransformer::Create(
    const TransformerSpec& spec, const Checkpoint& checkpoint, const ModelTypes& types,
    const StepLimits& limits, RankGroup& ranks) {
  BEAMLINE_RETURN_IF_ERROR(CheckDivides(spec, ranks.ranks_per_stage()));
  BEAMLINE_RETURN_IF_ERROR(CheckStages(spec, ranks.num_stages()));
  const std::vector<Stage> stages = DivideLayers(spec, ranks.num_stages());
  // One behind the other, on a thread that may have been told to give way.
  std::vector<std::unique_ptr<Transformer>> parts;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const StagePart stage = {stages[ranks.StageOf(rank)], ranks.stages(rank)};
    BEAMLINE_ASSIGN_OR_RETURN(parts.emplace_back(),
                              Transformer::Create(spec, checkpoint, types, limits,
                                                  ranks.backend(rank), ranks.shares(rank), &stage));
  }
  return std::unique_ptr<RankedTransformer>(
      new RankedTransformer(spec, std::move(parts), limits.head_rows(), ranks));
}

template <typename Work>
Tensor RankedTransformer::OnEveryRank(Tensor absent, const Work& work) {
  Tensor of_model = absent;
  // The fault stays with the group.
  static_cast<void>(ranks_.Run([&](int rank) {
    Tensor result;
    const absl::Status status = work(rank, result);
    if (rank == ranks_.result_rank()) of_model = result;
    return status;
  }));
  return of_model;
}

namespace {

// Of whole sequences, up to so many pieces of about as many tokens each.
std::vector<EncoderBatch> Divide(const EncoderBatch& batch, int most) {
  const auto num_tokens = static_cast<int64_t>(batch.token_ids.size());
  std::vector<EncoderBatch> pieces;
  for (int s = 0; s < batch.num_sequences();) {
    EncoderBatch& piece = pieces.emplace_back();
    const int32_t begin = batch.offsets[s];
    const int64_t end = num_tokens * static_cast<int64_t>(pieces.size()) / most;
    piece.first_row = begin;
    piece.offsets = {0};
    do {
      piece.offsets.push_back(batch.offsets[++s] - begin);
    } while (s < batch.num_sequences() && batch.offsets[s] < end);
    const auto part = [&](const std::vector<int32_t>& of_batch) {
      if (of_batch.empty()) return of_batch;
      return std::vector<int32_t>(of_batch.begin() + begin, of_batch.begin() + batch.offsets[s]);
    };
    piece.token_ids = part(batch.token_ids);
    piece.type_ids = part(batch.type_ids);
  }
  return pieces;
}

}  // namespace

Tensor RankedTransformer::EncodePieces(const EncoderBatch& batch) {
  const std::vector<EncoderBatch> pieces = Divide(batch, ranks_.num_stages());
  Tensor whole = NoStates(batch);
  for (const EncoderBatch& piece : pieces) {
    ranks_.Start([this, &piece, &whole](int rank) {
      const Tensor hidden = parts_[rank]->Encode(piece);
      if (rank == ranks_.result_rank() && ranks_.Chooses(rank) && piece.first_row == 0) {
        whole = Tensor(hidden.data, hidden.dtype, {whole.dim(0), hidden.dim(-1)});
      }
      return absl::OkStatus();
    });
  }
  ranks_.Drain();
  return whole;
}

Tensor RankedTransformer::NoStates(const EncoderBatch& batch) const {
  return Tensor(nullptr, DType::kFloat32,
                {static_cast<int64_t>(batch.token_ids.size()), spec_.encoder->hidden_size});
}

Tensor RankedTransformer::Encode(const EncoderBatch& batch) {
  TellFollowers(ranks_, RankCall::kEncode,
                [&](ByteWriter& message) { VisitEncoderBatch(message, batch); });
  if (ranks_.num_stages() > 1 && !ranks_.backend(0).Records()) return EncodePieces(batch);
  return OnEveryRank(NoStates(batch), [&](int rank, Tensor& hidden) {
    hidden = parts_[rank]->Encode(batch);
    return absl::OkStatus();
  });
}

Tensor RankedTransformer::EncodeMemory(const EncoderBatch& batch) {
  BEAMLINE_CHECK(ranks_.followers() == nullptr);
  return OnEveryRank(NoStates(batch), [&](int rank, Tensor& hidden) {
    hidden = parts_[rank]->EncodeMemory(batch);
    return absl::OkStatus();
  });
}

Tensor RankedTransformer::Decode(const StepBatch& batch, const DeviceEdits& edits) {
  BEAMLINE_CHECK(ranks_.followers() == nullptr);
  num_wanted_ = static_cast<int64_t>(batch.logits_rows.size());
  return Gathered(std::min(num_wanted_, head_rows_),
                  [&](Transformer& part) { return part.Decode(batch, edits); });
}

Tensor RankedTransformer::MoreLogits(int64_t first_row) {
  return Gathered(std::min(num_wanted_ - first_row, head_rows_),
                  [&](Transformer& part) { return part.MoreLogits(first_row); });
}

template <typename Compute>
Tensor RankedTransformer::Gathered(int64_t num_rows, const Compute& compute) {
  const Tensor none(nullptr, DType::kFloat32, {num_rows, spec_.vocab_size});
  return OnEveryRank(none, [&](int rank, Tensor& logits) {
    logits = compute(*parts_[rank]);
    const bool divided = ranks_.shares(rank) != nullptr && ranks_.Chooses(rank);
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
  BEAMLINE_CHECK(ranks_.followers() == nullptr);
  OnEveryRank(Tensor(), [&](int rank, Tensor&) {
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
