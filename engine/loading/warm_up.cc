#include "engine/loading/warm_up.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "base/math.h"
#include "base/status.h"
#include "engine/transformer/spec.h"

namespace beamline {
namespace {

// The first pass takes the workspace of an operator in pieces, the second as one.
constexpr int kNumPasses = 2;

// As many tokens as a step may have, in sequences of at most `max_length`; returns their offsets.
std::vector<int32_t> LargestBatch(const StepLimits& limits, int32_t max_length) {
  const int32_t length = std::min(max_length, limits.max_batch_tokens);
  std::vector<int32_t> offsets = {0};
  while (static_cast<int32_t>(offsets.size()) <= limits.max_sequences &&
         offsets.back() < limits.max_batch_tokens) {
    offsets.push_back(std::min(offsets.back() + length, limits.max_batch_tokens));
  }
  return offsets;
}

// Tables of sequences of up to `length` positions over the first `num_blocks` blocks of the cache,
// again and again: nobody reads what these steps compute. Returns their width.
int32_t FillTables(int32_t length, int32_t block_size, int32_t num_blocks, size_t num_sequences,
                   std::vector<int32_t>& tables) {
  const int32_t width = CeilDiv(length, block_size);
  for (size_t i = 0; i < num_sequences * width; ++i) {
    tables.push_back(static_cast<int32_t>(i % num_blocks));
  }
  return width;
}

EncoderBatch LargestEncoderBatch(const TransformerSpec& spec, const StepLimits& limits) {
  EncoderBatch batch;
  batch.offsets = LargestBatch(limits, spec.encoder->max_positions);
  batch.token_ids.resize(batch.offsets.back(), 0);
  if (!spec.decoder.has_value()) return batch;
  const int64_t num_slots = int64_t{limits.num_blocks} * limits.block_size;
  for (int64_t i = 0; i < batch.offsets.back(); ++i) {
    batch.slots.push_back(static_cast<int32_t>(i % num_slots));
  }
  return batch;
}

StepBatch LargestStepBatch(const TransformerSpec& spec, const StepLimits& limits) {
  StepBatch batch;
  batch.query_offsets = LargestBatch(limits, spec.decoder->max_positions);
  const auto num_tokens = static_cast<size_t>(batch.query_offsets.back());
  const auto num_sequences = static_cast<size_t>(batch.num_sequences());
  batch.token_ids.resize(num_tokens, 0);
  batch.max_blocks = FillTables(batch.query_offsets[1], limits.block_size, limits.num_blocks,
                                num_sequences, batch.block_tables);
  for (size_t s = 0; s < num_sequences; ++s) {
    const int32_t length = batch.query_offsets[s + 1] - batch.query_offsets[s];
    const int32_t* table = batch.block_tables.data() + s * batch.max_blocks;
    for (int32_t i = 0; i < length; ++i) {
      batch.positions.push_back(i);
      batch.slots.push_back(table[i / limits.block_size] * limits.block_size +
                            i % limits.block_size);
    }
    batch.context_lengths.push_back(length);
  }
  if (spec.encoder.has_value()) {
    // Over blocks that the encoder's step has written: memory that nobody wrote may hold NaN.
    const int32_t written = LargestBatch(limits, spec.encoder->max_positions).back();
    const int32_t num_blocks = std::min(limits.num_blocks, written / limits.block_size);
    const int32_t length = spec.encoder->max_positions;
    batch.memory_lengths.resize(num_sequences, length);
    batch.max_memory_blocks = FillTables(length, limits.block_size, std::max(num_blocks, 1),
                                         num_sequences, batch.memory_tables);
  }
  batch.logits_rows.resize(std::min<size_t>(num_tokens, limits.max_logits_rows));
  std::iota(batch.logits_rows.begin(), batch.logits_rows.end(), 0);
  return batch;
}

// What follows the logits: the best candidates of every row and a draw for every sequence.
absl::Status Select(const Tensor& logits, const StepLimits& limits, Backend& backend) {
  const int32_t num_draws = limits.max_sequences;
  const auto num_rows = static_cast<size_t>(logits.num_rows());
  TopCandidatesParams best;
  best.max_count = limits.max_candidates;
  const size_t num_entries = num_rows * best.max_count;
  BEAMLINE_ASSIGN_OR_RETURN(
      const std::unique_ptr<Buffer> results,
      backend.Allocate((3 * num_entries + num_rows + 2 * num_draws) * sizeof(float)));
  float* const words = static_cast<float*>(results->data());
  const std::vector<int32_t> counts(num_rows, best.max_count);
  best.logits = logits;
  best.counts = counts;
  best.values = words;
  best.raw_values = words + num_entries;
  best.ids = reinterpret_cast<int32_t*>(words + 2 * num_entries);
  best.log_normalizers = words + 3 * num_entries;
  backend.TopCandidates(best);

  std::vector<SampleRow> rows(num_draws);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].row = static_cast<int32_t>(i % num_rows);
  SampleParams draw;
  draw.logits = logits;
  draw.rows = rows;
  draw.values = best.log_normalizers + num_rows;
  draw.ids = reinterpret_cast<int32_t*>(draw.values + num_draws);
  backend.Sample(draw);
  return backend.Synchronize();
}

}  // namespace

absl::Status RunLargestSteps(const StepLimits& limits, Transformer& transformer, Backend& backend) {
  const TransformerSpec& spec = transformer.spec();
  for (int pass = 0; pass < kNumPasses; ++pass) {
    if (spec.encoder.has_value()) {
      const EncoderBatch batch = LargestEncoderBatch(spec, limits);
      if (spec.decoder.has_value()) {
        transformer.EncodeMemory(batch);
      } else {
        transformer.Pool(batch, transformer.Encode(batch), Pooling::kMean, /*normalize=*/true);
      }
    }
    if (spec.decoder.has_value()) {
      const Tensor logits = transformer.Decode(LargestStepBatch(spec, limits));
      BEAMLINE_RETURN_IF_ERROR(Select(logits, limits, backend));
    }
    BEAMLINE_RETURN_IF_ERROR(backend.Synchronize());
  }
  return absl::OkStatus();
}

}  // namespace beamline
