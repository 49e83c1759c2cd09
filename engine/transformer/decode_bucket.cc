#include "engine/transformer/decode_bucket.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/math.h"

namespace beamline {
namespace {

constexpr size_t kMostEncoderRows = 1024;
// Flags in shape numbers: an encoder batch (not a decode step); a padded one.
constexpr uint64_t kEncoderBit = uint64_t{1} << 63;
constexpr uint64_t kPaddedBit = uint64_t{1} << 62;
// Minimum length for which padded inputs are launched.
constexpr int32_t kLeastLength = 32;

// Pads a table of [rows, width] to [padded_rows, padded_width]; new rows contain `fill`.
void PadTable(const std::vector<int32_t>& table, int32_t width, int32_t padded_rows,
              int32_t padded_width, int32_t fill, std::vector<int32_t>& padded) {
  padded.assign(static_cast<size_t>(padded_rows) * padded_width, fill);
  for (size_t row = 0; row * width < table.size(); ++row) {
    std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(row * width), width,
                padded.begin() + static_cast<std::ptrdiff_t>(row * padded_width));
  }
}

int32_t LongestInput(const EncoderBatch& batch) {
  int32_t longest = 0;
  for (int s = 0; s < batch.num_sequences(); ++s) {
    longest = std::max(longest, batch.offsets[s + 1] - batch.offsets[s]);
  }
  return longest;
}

// The padded number of sequences. The new ones must be able to hold `rows` rows of at most `length`
// each. A sequence without rows costs almost nothing.
int32_t BucketSequences(int32_t num_sequences, int32_t rows, int32_t length) {
  int32_t bucket = BucketBlocks(num_sequences);
  while (int64_t{bucket - num_sequences} * length < rows) bucket *= 2;
  return bucket;
}

uint64_t Number(uint64_t bits, size_t rows, int num_sequences, int32_t longest) {
  return bits | rows | static_cast<uint64_t>(num_sequences) << 20 |
         static_cast<uint64_t>(longest) << 40;
}

}  // namespace

int32_t BucketRows(int32_t rows) {
  if (rows <= 8) return static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(rows)));
  return RoundUpInDoubling(rows, 4);
}

int32_t BucketBlocks(int32_t blocks) {
  return static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(blocks)));
}

uint64_t EncoderShape(const EncoderBatch& batch) {
  const size_t rows = batch.token_ids.size();
  if (rows > kMostEncoderRows) return 0;
  return Number(kEncoderBit, rows, batch.num_sequences(), LongestInput(batch));
}

uint64_t PadEncoderBatch(const EncoderBatch& batch, const StepLimits& limits,
                         EncoderBatch& padded) {
  padded = batch;
  if (batch.num_sequences() == 1) return EncoderShape(batch);
  const auto rows = static_cast<int32_t>(batch.token_ids.size());
  const int32_t padded_rows = BucketRows(rows), longest = LongestInput(batch);
  const int32_t sequences = BucketSequences(batch.num_sequences(), padded_rows - rows, longest);
  if (padded_rows > limits.max_batch_tokens || sequences > limits.max_sequences) {
    return EncoderShape(batch);
  }
  padded.token_ids.resize(padded_rows, 0);
  if (!batch.type_ids.empty()) padded.type_ids.resize(padded_rows, 0);
  padded.slots.resize(padded_rows, limits.num_blocks * limits.block_size);
  while (padded.num_sequences() < sequences) {
    padded.offsets.push_back(std::min(padded_rows, padded.offsets.back() + longest));
  }
  padded.max_length = BucketBlocks(std::max(longest, kLeastLength));
  return Number(kEncoderBit | kPaddedBit, padded_rows, sequences, padded.max_length);
}

bool IsDecodeStep(const StepBatch& batch) {
  const auto rows = static_cast<size_t>(batch.num_sequences());
  return batch.token_ids.size() == rows && batch.logits_rows.size() == rows &&
         rows <= kMostDecodeRows;
}

uint64_t PadDecodeStep(const StepBatch& batch, const StepLimits& limits, StepBatch& padded) {
  BEAMLINE_CHECK(IsDecodeStep(batch));
  const int32_t rows = batch.num_sequences();
  const int32_t padded_rows = std::max(rows, std::min(BucketRows(rows), limits.max_decode_rows()));
  const int32_t scratch_block = limits.num_blocks;

  padded = batch;
  padded.token_ids.resize(padded_rows, 0);
  padded.positions.resize(padded_rows, 0);
  padded.slots.resize(padded_rows, scratch_block * limits.block_size);
  padded.context_lengths.resize(padded_rows, 1);
  for (int32_t row = rows; row < padded_rows; ++row) {
    padded.query_offsets.push_back(row + 1);
    padded.logits_rows.push_back(row);
  }
  padded.max_blocks = BucketBlocks(batch.max_blocks);
  PadTable(batch.block_tables, batch.max_blocks, padded_rows, padded.max_blocks, scratch_block,
           padded.block_tables);
  if (batch.max_memory_blocks > 0) {
    padded.memory_lengths.resize(padded_rows, 1);
    padded.max_memory_blocks = BucketBlocks(batch.max_memory_blocks);
    PadTable(batch.memory_tables, batch.max_memory_blocks, padded_rows, padded.max_memory_blocks,
             scratch_block, padded.memory_tables);
  }
  padded.max_context_length = padded.max_blocks * limits.block_size;
  padded.max_memory_length = padded.max_memory_blocks * limits.block_size;
  return static_cast<uint64_t>(padded_rows) | static_cast<uint64_t>(padded.max_blocks) << 16 |
         static_cast<uint64_t>(padded.max_memory_blocks) << 40;
}

}  // namespace beamline
