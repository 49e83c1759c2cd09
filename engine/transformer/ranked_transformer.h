// A transformer that several ranks compute together, each with the layers of its stage, and of
// these the heads, inner features and columns of the logits of its shard. Every rank gets the same
// batches and has all of the hidden states.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/transformer/rank_group.h"
#include "engine/transformer/transformer.h"

namespace beamline {

class RankedTransformer final : public Transformer {
 public:
  // As Transformer::Create, for each rank of this process; `ranks` outlives it. What a front is
  // called to encode its followers are told (engine/transformer/rank_call.h); steps are told of by
  // RankedStep, and EncodeMemory, Decode and CopyBlocks are of groups without followers alone.
  // INVALID_ARGUMENT naming tensor_parallel or pipeline_parallel when the model does not divide.
  static absl::StatusOr<std::unique_ptr<RankedTransformer>> Create(const TransformerSpec& spec,
                                                                   const Checkpoint& checkpoint,
                                                                   const ModelTypes& types,
                                                                   const StepLimits& limits,
                                                                   RankGroup& ranks);

  RankGroup& ranks() { return ranks_; }
  // The part of one rank, for the thread of that rank. Its logits are those of its columns, where
  // it has the last layer.
  Transformer& part(int rank) { return *parts_[rank]; }

  // What these return lies on the rank that has the results. After a fault, which
  // RankGroup::status() tells, it has the usual shape, and is undefined or without memory.
  // Stages compute pieces of the batch at the same time, on devices that record no steps.
  Tensor Encode(const EncoderBatch& batch) override;
  Tensor EncodeMemory(const EncoderBatch& batch) override;
  // Gathers the logits, which serving never does (engine/runahead/ranked_step.h).
  using Transformer::Decode;
  Tensor Decode(const StepBatch& batch, const DeviceEdits& edits) override;
  Tensor MoreLogits(int64_t first_row) override;
  Tensor Pool(const EncoderBatch& batch, const Tensor& hidden, Pooling pooling,
              bool normalize) override;
  void CopyBlocks(std::span<const BlockCopy> copies) override;

  const TransformerSpec& spec() const override { return spec_; }
  int64_t num_parameters() const override { return parts_.front()->num_parameters(); }
  // Of all ranks of this process together.
  int64_t weight_bytes() const override;
  RankedTransformer* ranked() override { return this; }

 private:
  RankedTransformer(const TransformerSpec& spec, std::vector<std::unique_ptr<Transformer>> parts,
                    int64_t head_rows, RankGroup& ranks)
      : spec_(spec),
        head_rows_(head_rows),
        ranks_(ranks),
        parts_(std::move(parts)),
        gathered_(parts_.size()) {}

  // Runs `work` on every rank; returns the result of the one that has the results, `absent` if a
  // fault keeps it from having one.
  template <typename Work>
  Tensor OnEveryRank(Tensor absent, const Work& work);
  // Hidden states of a batch without memory.
  Tensor NoStates(const EncoderBatch& batch) const;
  // The whole of pieces that the stages compute one behind the other.
  Tensor EncodePieces(const EncoderBatch& batch);
  // Of all ranks, the logits that compute(part) returns, in as many rows.
  template <typename Compute>
  Tensor Gathered(int64_t num_rows, const Compute& compute);
  absl::Status GatherLogits(int rank, Tensor logits, Tensor& whole);

  const TransformerSpec spec_;
  const int64_t head_rows_;  // StepLimits::head_rows()
  RankGroup& ranks_;
  const std::vector<std::unique_ptr<Transformer>> parts_;
  std::vector<std::unique_ptr<Buffer>> gathered_;  // of each rank, whole logits
  int64_t num_wanted_ = 0;                         // logits rows of the last Decode
};

}  // namespace beamline
