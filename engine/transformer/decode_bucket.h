// Pads decode steps and encoder batches to a few shapes, so that a device can record a CUDA graph
// per shape and replay it. Rows, sequences and block tables are padded to the next size of a short
// list.
#pragma once

#include <cstdint>

#include "engine/transformer/transformer.h"

namespace beamline {

// The shape number of an unpadded encoder batch; 0: not worth recording, because large batches keep
// the device busy without a graph.
uint64_t EncoderShape(const EncoderBatch& batch);

// Fills `padded` with an encoder batch for a decoder's memory, plus padding rows in sequences of
// their own, some of which have no rows. Padding rows write to the cache block after the last one
// of `limits`. Returns the shape number, as PadDecodeStep. A single input is not padded, and
// neither is a batch for which the limits leave no room; their number is that of EncoderShape.
uint64_t PadEncoderBatch(const EncoderBatch& batch, const StepLimits& limits, EncoderBatch& padded);

// With more rows, a decode step takes the device longer than its launches take the host.
inline constexpr int32_t kMostDecodeRows = 1024;

// The padded number of rows of a decode step: 1, 2, 4, 8, then four sizes per doubling
// (RoundUpInDoubling).
int32_t BucketRows(int32_t rows);
// The padded width of block tables: a power of two.
int32_t BucketBlocks(int32_t blocks);

// Whether every sequence has one token with logits, and the rows fit the largest bucket.
bool IsDecodeStep(const StepBatch& batch);

// Fills `padded` with `batch` and padding rows, which use the cache block after the last one of
// `limits`. Returns the shape number, > 0: steps with the same number differ only in the values of
// their arrays. REQUIRES: IsDecodeStep.
uint64_t PadDecodeStep(const StepBatch& batch, const StepLimits& limits, StepBatch& padded);

}  // namespace beamline
