// The one forward pass for all families, driven by the spec. Activations are allocated once, at
// creation, for the largest batch; no step allocates.
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

// One rank's part of a stage, with pipeline parallelism.
struct StagePart {
  Stage layers;
  // Connects the stages; a stage's number is its rank there. Must outlive the transformer.
  Communicator* stages = nullptr;
};

// A batch for the encoder, in host memory. Sequence s owns tokens offsets[s] .. offsets[s + 1].
struct EncoderBatch {
  std::vector<int32_t> token_ids;  // [num_tokens]
  std::vector<int32_t> type_ids;   // [num_tokens]; empty: all 0
  std::vector<int32_t> offsets;    // [num_sequences + 1]
  // Encoder-decoder models: the cache slot of each position's cross-attention keys and values.
  std::vector<int32_t> slots;  // [num_tokens]
  // For a batch that is one of several pieces: the row of its first hidden state, after those of
  // the earlier pieces.
  int32_t first_row = 0;
  // Upper bound of lengths, for kernels whose launch depends on it; 0: the largest length.
  int32_t max_length = 0;

  int num_sequences() const { return static_cast<int>(offsets.size()) - 1; }
};

// A batch for the decoder, in host memory: prefill chunks and single decode tokens alike.
struct StepBatch {
  std::vector<int32_t> token_ids;  // [num_tokens]
  // [num_tokens], 0-based within the sequence; long ones are offset by RotarySpec::first_row
  std::vector<int32_t> positions;
  std::vector<int32_t> slots;            // [num_tokens], where each token's keys and values are
                                         // written
  std::vector<int32_t> query_offsets;    // [num_sequences + 1]
  std::vector<int32_t> context_lengths;  // [num_sequences], including this step's tokens
  std::vector<int32_t> block_tables;     // [num_sequences, max_blocks]
  int32_t max_blocks = 0;
  // Encoder-decoder models: the location of each sequence's encoder memory.
  std::vector<int32_t> memory_lengths;  // [num_sequences]
  std::vector<int32_t> memory_tables;   // [num_sequences, max_memory_blocks]
  int32_t max_memory_blocks = 0;
  // [num_logits_rows], tokens whose logits are needed, ascending; may be empty.
  std::vector<int32_t> logits_rows;
  // Upper bound of lengths, for kernels whose launch depends on it; 0: the largest length.
  int32_t max_context_length = 0;
  int32_t max_memory_length = 0;

  int num_sequences() const { return static_cast<int>(query_offsets.size()) - 1; }
};

// Values that the device itself writes into a step's batch, from results that the host has not read
// yet. All of `words` is device memory.
struct DeviceEdits {
  const int32_t* words = nullptr;
  // Words that replace entries of token_ids.
  std::vector<TokenFill> fills;
  // Searches whose rows are still in the order of their parents' step: the device reorders their
  // block tables as the words say.
  std::vector<BeamTables> beam_tables;
};

class Transformer {
 public:
  // Reads, checks and packs every weight of the spec. Errors name the tensor. The checkpoint may be
  // closed afterwards; the backend must outlive the transformer. CHECKs that batches are within the
  // limits, and ids, positions and slots within their ranges.
  // - With a communicator (which must outlive the transformer) this is one rank's part
  //   (engine/transformer/shard.h), and spec() is that of the part. Hidden states are whole; logits
  //   have the rank's columns. All ranks must make the same calls. REQUIRES: CheckDivides.
  // - With a stage it has the stage's layers and continues with what the previous stage sent. Its
  //   results are the model's if the stage ends the model; otherwise they must not be read.
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
  // The logits of the requested rows, [num_logits_rows, vocab_size] float32 on the device;
  // row_stride is larger than vocab_size. At most StepLimits::head_rows() rows; MoreLogits returns
  // the others. Valid until the next call.
  virtual Tensor Decode(const StepBatch& batch, const DeviceEdits& edits) = 0;
  Tensor Decode(const StepBatch& batch) { return Decode(batch, DeviceEdits()); }
  // The logits of the last Decode's rows from `first_row` on, as many as fit. They overwrite the
  // previous logits.
  virtual Tensor MoreLogits(int64_t first_row) = 0;
  // Pools the result of Encode into [num_sequences, hidden_size] float32 on the device.
  virtual Tensor Pool(const EncoderBatch& batch, const Tensor& hidden, Pooling pooling,
                      bool normalize) = 0;
  // Copies whole cache blocks in every layer.
  virtual void CopyBlocks(std::span<const BlockCopy> copies) = 0;

  // For encoders whose inputs may be longer than a step (StepLimits::max_input_tokens): computes
  // such an input in pieces; other calls are allowed between them. Null: no input is longer.
  virtual LongInput* long_input() { return nullptr; }

  // Its activation buffers. While no long input is in progress, their content is not needed between
  // reading a result and the next call. Empty if several ranks compute the model.
  virtual std::span<const std::unique_ptr<Buffer>> activations() const { return {}; }
  // The KV cache. Empty if several ranks compute the model.
  virtual std::span<const std::unique_ptr<Buffer>> cache() const { return {}; }

  // This object as a transformer with several ranks; null: it has one rank.
  virtual RankedTransformer* ranked() { return nullptr; }

  virtual const TransformerSpec& spec() const = 0;
  virtual int64_t num_parameters() const = 0;
  virtual int64_t weight_bytes() const = 0;
  // Bytes of one cache block over all layers, summed over the `num_ranks` ranks of each stage.
  static int64_t BlockBytes(const TransformerSpec& spec, DType cache_dtype, int32_t block_size,
                            int32_t num_ranks = 1);
  // Bytes that Create allocates on the device besides weights and cache.
  static int64_t BufferBytes(const TransformerSpec& spec, DType activation_dtype,
                             const StepLimits& limits);
};

}  // namespace beamline
