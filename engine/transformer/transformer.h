// The one forward pass, driven by the spec of a family. Activations are planned once, at creation,
// for the largest batch; no step allocates.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/model_types.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/stage.h"
#include "engine/transformer/step_limits.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace beamline {

class LongInput;
class RankedTransformer;

// The stage of a model whose layers are divided, on one of its ranks.
struct StagePart {
  Stage layers;
  // Of the stages, whose number is their rank there. Outlives the transformer.
  Communicator* stages = nullptr;
};

// A batch for the encoder, in host memory. Sequence s owns tokens offsets[s] .. offsets[s + 1].
struct EncoderBatch {
  std::vector<int32_t> token_ids;  // [num_tokens]
  std::vector<int32_t> type_ids;   // [num_tokens]; empty: all 0
  std::vector<int32_t> offsets;    // [num_sequences + 1]
  // Encoder-decoder models: the cache slot of each position's cross-attention keys and values.
  std::vector<int32_t> slots;  // [num_tokens]
  // Of a batch that is a piece of a larger one: where its hidden states go, behind those of the
  // pieces before it.
  int32_t first_row = 0;
  // Above every length, for kernels that are launched by it; 0: the largest length.
  int32_t max_length = 0;

  int num_sequences() const { return static_cast<int>(offsets.size()) - 1; }
};

// A batch for the decoder, in host memory: prefill chunks and single decode tokens alike.
struct StepBatch {
  std::vector<int32_t> token_ids;  // [num_tokens]
  // [num_tokens], 0-based within the sequence, of long ones behind RotarySpec::first_row
  std::vector<int32_t> positions;
  std::vector<int32_t> slots;            // [num_tokens], where each token's keys and values go
  std::vector<int32_t> query_offsets;    // [num_sequences + 1]
  std::vector<int32_t> context_lengths;  // [num_sequences], this step's tokens included
  std::vector<int32_t> block_tables;     // [num_sequences, max_blocks]
  int32_t max_blocks = 0;
  // Encoder-decoder models: where each sequence's memory lies.
  std::vector<int32_t> memory_lengths;  // [num_sequences]
  std::vector<int32_t> memory_tables;   // [num_sequences, max_memory_blocks]
  int32_t max_memory_blocks = 0;
  // [num_logits_rows], tokens whose logits are wanted, ascending; may be empty.
  std::vector<int32_t> logits_rows;
  // Above every length, for kernels that are launched by it; 0: the largest length.
  int32_t max_context_length = 0;
  int32_t max_memory_length = 0;

  int num_sequences() const { return static_cast<int>(query_offsets.size()) - 1; }
};

// What the device puts into a step's batch by itself, out of results that it has and the host has
// not. All of `words` is device memory.
struct DeviceEdits {
  const int32_t* words = nullptr;
  // Words that replace what token_ids holds there.
  std::vector<TokenFill> fills;
  // Searches whose rows are still in the order of their parents' step: the device puts their tables
  // into the order that the words say.
  std::vector<BeamTables> beam_tables;
};

class Transformer {
 public:
  // Reads, checks and packs every weight that the spec names. Errors name the tensor. The
  // checkpoint may be closed afterwards; the backend must outlive the transformer. Batches over the
  // limits, and ids, positions or slots outside their ranges, CHECK.
  // With a communicator, which outlives it too, it is the part of one rank (engine/transformer/
  // shard.h), whose spec() is that of the part: hidden states are whole, logits those of its
  // columns. All ranks must make the same calls. REQUIRES: CheckDivides.
  // With a stage it has the stage's layers and computes what the one before it has sent; its
  // results are the model's where the stage ends it, and else nobody's to read.
  static absl::StatusOr<std::unique_ptr<Transformer>> Create(
      const TransformerSpec& spec, const Checkpoint& checkpoint, const ModelTypes& types,
      const StepLimits& limits, Backend& backend, Communicator* communicator = nullptr,
      const StagePart* stage = nullptr);
  virtual ~Transformer() = default;

  // Encoder-only models: the last hidden states, [num_tokens, hidden_size]. Valid until the next
  // call.
  virtual Tensor Encode(const EncoderBatch& batch) = 0;
  // Encoder-decoder models: runs the encoder and stores every decoder layer's cross-attention keys
  // and values at batch.slots. Returns the last hidden states (for tests), valid until the next
  // call.
  virtual Tensor EncodeMemory(const EncoderBatch& batch) = 0;
  // The logits of the rows asked for, [num_logits_rows, vocab_size] float32 on the device, its
  // row_stride above vocab_size. Of more than StepLimits::head_rows() rows those of so many, and
  // MoreLogits has the others. Valid until the next call.
  virtual Tensor Decode(const StepBatch& batch, const DeviceEdits& edits) = 0;
  Tensor Decode(const StepBatch& batch) { return Decode(batch, DeviceEdits()); }
  // The logits of the last Decode's rows from `first_row` on, as many as there are and fit, where
  // the logits before them lay.
  virtual Tensor MoreLogits(int64_t first_row) = 0;
  // Pools the result of Encode into [num_sequences, hidden_size] float32 on the device.
  virtual Tensor Pool(const EncoderBatch& batch, const Tensor& hidden, Pooling pooling,
                      bool normalize) = 0;
  // Copies whole cache blocks, in every layer.
  virtual void CopyBlocks(std::span<const BlockCopy> copies) = 0;

  // Encoders whose inputs may be longer than a step (StepLimits::max_input_tokens): what computes
  // such an input in pieces, between which the other calls may be made. Null: none is longer.
  virtual LongInput* long_input() { return nullptr; }

  // What it computes in: while no input is computed in pieces, their content is not needed between
  // a result that was read and the next call. Empty of what several ranks compute.
  virtual std::span<const std::unique_ptr<Buffer>> activations() const { return {}; }
  // The key/value cache. Empty of what several ranks compute.
  virtual std::span<const std::unique_ptr<Buffer>> cache() const { return {}; }

  // Itself as what several ranks compute together; null: one computes it.
  virtual RankedTransformer* ranked() { return nullptr; }

  virtual const TransformerSpec& spec() const = 0;
  virtual int64_t num_parameters() const = 0;
  virtual int64_t weight_bytes() const = 0;
  // Bytes that one cache block takes over all layers, of so many ranks to a stage in all of them.
  static int64_t BlockBytes(const TransformerSpec& spec, DType cache_dtype, int32_t block_size,
                            int32_t num_ranks = 1);
  // Bytes that Create takes of the device besides weights and cache.
  static int64_t BufferBytes(const TransformerSpec& spec, DType activation_dtype,
                             const StepLimits& limits);
};

}  // namespace beamline
