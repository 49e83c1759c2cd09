// Decode steps and encoder batches brought to a few shapes, so that a device can record one of each
// shape and replay it: rows, sequences and block tables are padded to the next size of a short
// list.
#pragma once

#include <cstdint>

#include "engine/transformer/transformer.h"

namespace beamline {

// The number of an encoder batch's shape as it is, 0 when it is not worth recording: large batches
// keep the device busy by themselves.
uint64_t EncoderShape(const EncoderBatch& batch);

// Fills `padded` with a batch for a decoder's memory and rows that nobody looks at, in sequences of
// their own, some of them without rows: they write to the cache block behind the last one of
// `limits`. Returns the number of the shape, as PadDecodeStep. One input alone stays as it is, and
// so does a batch that the limits have no room to pad: their number is that of EncoderShape.
uint64_t PadEncoderBatch(const EncoderBatch& batch, const StepLimits& limits, EncoderBatch& padded);

// Beyond, a decode step takes the device longer than its launches take the host.
inline constexpr int32_t kMostDecodeRows = 1024;

// The size that decode steps of so many rows are padded to: 1, 2, 4, 8, then four sizes to each
// doubling (RoundUpInDoubling).
int32_t BucketRows(int32_t rows);
// The width that tables of so many blocks are padded to: a power of two.
int32_t BucketBlocks(int32_t blocks);

// Whether every sequence has one token and wants its logits, and none is past the largest bucket.
bool IsDecodeStep(const StepBatch& batch);

// Fills `padded` with `batch` and rows that nobody looks at: they read and write the cache block
// behind the last one of `limits`. Returns the number of the shape, > 0: steps of one number differ
// in nothing but the arrays' values. REQUIRES: IsDecodeStep.
uint64_t PadDecodeStep(const StepBatch& batch, const StepLimits& limits, StepBatch& padded);

}  // namespace beamline
