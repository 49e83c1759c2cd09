// Host batches, checked and put on the device as the forward pass reads them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/transformer/forward.h"
#include "engine/transformer/index_arrays.h"
#include "engine/transformer/spec.h"
#include "engine/transformer/transformer.h"

namespace beamline {

struct EncoderInputs {
  PackedTokens tokens;
  const int32_t* slots = nullptr;  // [num_tokens]; null when the batch has none
};

// One step's index arrays at a time: each call invalidates what the last one returned, but for
// PutOffsets of sequences that PutEncoderBatch has put there. Batches that
// contradict themselves, the limits or the spec (ids and positions out of range) CHECK.
class StepInputs {
 public:
  static absl::StatusOr<StepInputs> Create(const TransformerSpec& spec, const StepLimits& limits,
                                           Backend& backend);

  // What Create takes of the device.
  static int64_t DeviceBytes(const TransformerSpec& spec, const StepLimits& limits);

  EncoderInputs PutEncoderBatch(const EncoderBatch& batch);
  // cache: the decoder's layers, in which the blocks of reordered beams are copied.
  DecoderInputs PutStepBatch(const StepBatch& batch, const DeviceEdits& edits,
                             std::span<const KvLayer> cache);
  const int32_t* PutOffsets(const EncoderBatch& batch);
  // Rows `begin` .. of an encoder's input as far as `positions`, of that many rows, reaches:
  // position i of the input is slot i of a cache that holds it alone.
  DecoderInputs PutPiece(std::span<const int32_t> ids, std::span<const int32_t> positions,
                         int32_t begin);
  // Rows of the position table for the tokens of one input: [ids.size()].
  static void FillPositions(const StackSpec& stack, std::span<const int32_t> ids,
                            std::span<int32_t> positions);

 private:
  StepInputs(const TransformerSpec& spec, const StepLimits& limits, IndexArrays arrays,
             std::unique_ptr<Buffer> one_text_offsets, Backend& backend)
      : spec_(&spec),
        limits_(limits),
        arrays_(std::move(arrays)),
        one_text_offsets_(std::move(one_text_offsets)),
        backend_(&backend) {}

  // in_place: of one text, whose offsets are there already.
  PackedRows PutRows(std::span<const int32_t> offsets, size_t num_tokens, bool in_place = false);
  PagedContext PutContext(std::span<const int32_t> lengths, std::span<const int32_t> tables,
                          int32_t max_blocks, int32_t max_length, int32_t num_blocks);
  IndexArrays::Array PutTokenIds(std::span<const int32_t> ids, int32_t vocab_size);
  // What of a step with sequences of one row and of several is attended apart.
  void PutRest(const StepBatch& batch, DecoderInputs& inputs);
  void PutWantedRows(const StepBatch& batch, DecoderInputs& inputs);

  const TransformerSpec* spec_;
  StepLimits limits_;
  IndexArrays arrays_;
  std::unique_ptr<Buffer> one_text_offsets_;  // [kMostInPlace + 1, 4]
  Backend* backend_;
  // Of the encoder's batch while the arrays hold it; else empty.
  std::vector<int32_t> encoder_offsets_;
  const int32_t* device_encoder_offsets_ = nullptr;
};

}  // namespace beamline
