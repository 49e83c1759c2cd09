// Validates batches in host memory and copies them to the device for the forward pass.
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
  const int32_t* slots = nullptr;  // [num_tokens]; null if the batch has none
};

// Holds one step's index arrays at a time: each call invalidates the previous result. Exception:
// PutOffsets of sequences that are already on the device from PutEncoderBatch. CHECKs batches that
// contradict themselves, the limits or the spec (ids and positions out of range).
class StepInputs {
 public:
  static absl::StatusOr<StepInputs> Create(const TransformerSpec& spec, const StepLimits& limits,
                                           Backend& backend);

  // Device memory that Create allocates.
  static int64_t DeviceBytes(const TransformerSpec& spec, const StepLimits& limits);

  EncoderInputs PutEncoderBatch(const EncoderBatch& batch);
  // cache: the decoder's layers; blocks of reordered beams are copied in it.
  DecoderInputs PutStepBatch(const StepBatch& batch, const DeviceEdits& edits,
                             std::span<const KvLayer> cache);
  const int32_t* PutOffsets(const EncoderBatch& batch);
  // A piece of an encoder's input: rows from `begin` on, one per element of `positions`. Position i
  // of the input uses slot i of a cache that holds only this input.
  DecoderInputs PutPiece(std::span<const int32_t> ids, std::span<const int32_t> positions,
                         int32_t begin);
  // Writes the position-table row of each token of one input: [ids.size()].
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

  // in_place: a single text whose offsets are already on the device.
  PackedRows PutRows(std::span<const int32_t> offsets, size_t num_tokens, bool in_place = false);
  PagedContext PutContext(std::span<const int32_t> lengths, std::span<const int32_t> tables,
                          int32_t max_blocks, int32_t max_length, int32_t num_blocks);
  IndexArrays::Array PutTokenIds(std::span<const int32_t> ids, int32_t vocab_size);
  // In a step with single-row and longer sequences: sets what the longer ones' attention call
  // needs.
  void PutRest(const StepBatch& batch, DecoderInputs& inputs);
  void PutWantedRows(const StepBatch& batch, DecoderInputs& inputs);

  const TransformerSpec* spec_;
  StepLimits limits_;
  IndexArrays arrays_;
  std::unique_ptr<Buffer> one_text_offsets_;  // [kMostInPlace + 1, 4]
  Backend* backend_;
  // Offsets of the encoder's batch while the arrays contain it; else empty.
  std::vector<int32_t> encoder_offsets_;
  const int32_t* device_encoder_offsets_ = nullptr;
};

}  // namespace beamline
