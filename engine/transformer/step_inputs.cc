#include "engine/transformer/step_inputs.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "base/status.h"

namespace beamline {
namespace {

void CheckWithin(std::span<const int32_t> values, int32_t end) {
  // One maximum instead of a branch per value; as unsigned, negative values are the largest.
  uint32_t largest = 0;
  for (const int32_t value : values) largest = std::max(largest, static_cast<uint32_t>(value));
  BEAMLINE_CHECK(values.empty() || (end > 0 && largest < static_cast<uint32_t>(end)));
}

// Maximum tokens of a text whose arrays (ids, positions and types) are read in place.
constexpr size_t kMostInPlace = 128;
static_assert(3 * kMostInPlace <= IndexArrays::kMostInPlace);
// The offsets of one such text (0 and its length) are on the device from the start, for every
// length, at multiples of 16 bytes.
constexpr size_t kOffsetsStride = 4;
constexpr size_t kNumOffsets = kOffsetsStride * (kMostInPlace + 1);

// Minimum number of single-row sequences that get an attention call of their own. The kernel for
// many rows uses as many tiles for each sequence as for the longest one. With fewer single-row
// sequences, the extra call costs more than it saves.
constexpr int kFewestApart = 4;

// Maximum index values of one step.
size_t Capacity(const TransformerSpec& spec, const StepLimits& limits) {
  const size_t tokens = limits.max_batch_tokens;
  const size_t sequences = limits.max_sequences;
  size_t table_width = 0;
  for (const auto& stack : {spec.encoder, spec.decoder}) {
    if (!stack.has_value()) continue;
    // As wide as PadDecodeStep pads it.
    const int32_t blocks = CeilDiv(stack->max_positions, limits.block_size);
    table_width += std::bit_ceil(static_cast<uint32_t>(blocks));
  }
  constexpr size_t kMostArrays = 13;
  return 4 * tokens                 // ids, positions, types, slots
         + 3 * (sequences + 1)      // offsets of tokens, of rows with logits, of longer sequences
         + 2 * sequences            // context and memory lengths
         + sequences * table_width  // block and memory tables
         + limits.max_logits_rows   // rows with logits
         + kMostArrays * IndexArrays::kAlignment;
}

}  // namespace

absl::StatusOr<StepInputs> StepInputs::Create(const TransformerSpec& spec, const StepLimits& limits,
                                              Backend& backend) {
  BEAMLINE_ASSIGN_OR_RETURN(IndexArrays arrays,
                            IndexArrays::Create(Capacity(spec, limits), backend));
  BEAMLINE_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> offsets,
                            backend.Allocate(kNumOffsets * sizeof(int32_t)));
  std::vector<int32_t> values(kNumOffsets, 0);
  for (size_t i = 1; i < kNumOffsets; i += kOffsetsStride) {
    values[i] = static_cast<int32_t>(i / kOffsetsStride);
  }
  backend.CopyToDevice(values.data(), offsets->data(), kNumOffsets * sizeof(int32_t));
  return StepInputs(spec, limits, std::move(arrays), std::move(offsets), backend);
}

int64_t StepInputs::DeviceBytes(const TransformerSpec& spec, const StepLimits& limits) {
  return static_cast<int64_t>((Capacity(spec, limits) + kNumOffsets) * sizeof(int32_t));
}

EncoderInputs StepInputs::PutEncoderBatch(const EncoderBatch& batch) {
  const StackSpec& stack = *spec_->encoder;
  const size_t num_tokens = batch.token_ids.size();
  BEAMLINE_CHECK(batch.type_ids.empty() || batch.type_ids.size() == num_tokens);
  // Only the first operator reads the arrays of one short text.
  const bool in_place =
      !spec_->decoder.has_value() && batch.num_sequences() == 1 && num_tokens <= kMostInPlace;
  in_place ? arrays_.ClearInPlace() : arrays_.Clear();
  EncoderInputs inputs;
  inputs.tokens.rows = PutRows(batch.offsets, num_tokens, in_place);
  BEAMLINE_CHECK(batch.first_row >= 0);
  BEAMLINE_CHECK(batch.first_row + inputs.tokens.rows.num_rows <= limits_.max_batch_tokens);
  inputs.tokens.rows.first_row = batch.first_row;
  encoder_offsets_ = batch.offsets;
  device_encoder_offsets_ = inputs.tokens.rows.offsets;
  BEAMLINE_CHECK(inputs.tokens.rows.max_length <= stack.max_positions);
  inputs.tokens.rows.max_length = std::max(inputs.tokens.rows.max_length, batch.max_length);
  inputs.tokens.ids = PutTokenIds(batch.token_ids, stack.vocab_size).device;

  const IndexArrays::Array positions = arrays_.Add(num_tokens);
  for (size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
    const auto first = static_cast<size_t>(batch.offsets[s]);
    const size_t count = static_cast<size_t>(batch.offsets[s + 1]) - first;
    FillPositions(stack, std::span(batch.token_ids).subspan(first, count),
                  positions.host.subspan(first, count));
  }
  inputs.tokens.positions = positions.device;

  if (!stack.type_table.empty()) {
    CheckWithin(batch.type_ids, stack.num_types);
    const IndexArrays::Array types = arrays_.Add(num_tokens);
    std::fill(types.host.begin(), types.host.end(), 0);
    std::copy(batch.type_ids.begin(), batch.type_ids.end(), types.host.begin());
    inputs.tokens.type_ids = types.device;
  }
  if (!batch.slots.empty()) {
    BEAMLINE_CHECK(batch.slots.size() == num_tokens);
    // With CUDA graphs the cache has one extra block for padding rows.
    const int32_t num_blocks = limits_.num_blocks + (backend_->Records() ? 1 : 0);
    CheckWithin(batch.slots, num_blocks * limits_.block_size);
    inputs.slots = arrays_.Add(batch.slots);
  }
  arrays_.Upload();
  return inputs;
}

DecoderInputs StepInputs::PutStepBatch(const StepBatch& batch, const DeviceEdits& edits,
                                       std::span<const KvLayer> cache) {
  const StackSpec& stack = *spec_->decoder;
  const size_t num_tokens = batch.token_ids.size();
  BEAMLINE_CHECK(batch.positions.size() == num_tokens && batch.slots.size() == num_tokens);
  CheckWithin(batch.positions, stack.num_position_rows());
  BEAMLINE_CHECK(!cache.empty());
  const auto num_blocks = static_cast<int32_t>(cache.front().keys.dim(0));
  CheckWithin(batch.slots, num_blocks * limits_.block_size);
  arrays_.Clear();
  encoder_offsets_.clear();
  DecoderInputs inputs;
  inputs.tokens.rows = PutRows(batch.query_offsets, num_tokens);
  const IndexArrays::Array ids = PutTokenIds(batch.token_ids, stack.vocab_size);
  inputs.tokens.ids = ids.device;
  const IndexArrays::Array positions = arrays_.Add(num_tokens);
  for (size_t i = 0; i < num_tokens; ++i) {
    const bool is_padding = stack.padding_id >= 0 && batch.token_ids[i] == stack.padding_id;
    positions.host[i] = stack.position_offset + (is_padding ? -1 : batch.positions[i]);
  }
  // A token that the host does not know yet is never padding, whatever the host wrote there. Only
  // devices that run ahead have such tokens.
  for (const TokenFill& fill : edits.fills) {
    positions.host[fill.target] = stack.position_offset + batch.positions[fill.target];
  }
  inputs.tokens.positions = positions.device;
  int32_t* const slots = arrays_.Add(batch.slots);
  inputs.slots = slots;

  const auto num_sequences = static_cast<size_t>(inputs.tokens.rows.num_sequences);
  BEAMLINE_CHECK(batch.context_lengths.size() == num_sequences);
  inputs.context = PutContext(batch.context_lengths, batch.block_tables, batch.max_blocks,
                              batch.max_context_length, num_blocks);
  PutRest(batch, inputs);
  if (stack.cross_attention) {
    BEAMLINE_CHECK(batch.memory_lengths.size() == num_sequences);
    inputs.memory = PutContext(batch.memory_lengths, batch.memory_tables, batch.max_memory_blocks,
                               batch.max_memory_length, num_blocks);
  }
  PutWantedRows(batch, inputs);
  for (const TokenFill& fill : edits.fills) {
    BEAMLINE_CHECK(fill.target >= 0 && fill.target < static_cast<int32_t>(num_tokens));
  }
  if (!edits.fills.empty() && edits.beam_tables.empty()) {
    arrays_.Upload({edits.words, edits.fills, ids.device});
    return inputs;
  }
  arrays_.Upload();
  if (!edits.beam_tables.empty()) {
    backend_->ReorderBeams({.groups = edits.beam_tables,
                            .words = edits.words,
                            .block_tables = inputs.context.tables,
                            .max_blocks = inputs.context.max_blocks,
                            .slots = slots,
                            .layers = cache,
                            .host_tables = arrays_.Host(inputs.context.tables,
                                                        num_sequences * inputs.context.max_blocks),
                            .fills = edits.fills,
                            .token_ids = ids.device});
  }
  return inputs;
}

void StepInputs::FillPositions(const StackSpec& stack, std::span<const int32_t> ids,
                               std::span<int32_t> positions) {
  int32_t next = stack.position_offset + stack.rotary.first_row(static_cast<int32_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    positions[i] = ids[i] == stack.padding_id ? stack.position_offset - 1 : next++;
  }
}

DecoderInputs StepInputs::PutPiece(std::span<const int32_t> ids, std::span<const int32_t> positions,
                                   int32_t begin) {
  const auto count = static_cast<int32_t>(ids.size());
  const int32_t end = begin + count;
  BEAMLINE_CHECK(begin >= 0 && end <= limits_.max_input_tokens && positions.size() == ids.size());
  arrays_.Clear();
  encoder_offsets_.clear();
  DecoderInputs piece;
  const std::vector<int32_t> offsets = {0, count};
  piece.tokens.rows = PutRows(offsets, ids.size());
  piece.tokens.rows.first_row = begin;
  piece.tokens.ids = PutTokenIds(ids, spec_->encoder->vocab_size).device;
  piece.tokens.positions = arrays_.Add(positions);
  const IndexArrays::Array slots = arrays_.Add(ids.size());
  std::iota(slots.host.begin(), slots.host.end(), begin);
  piece.slots = slots.device;
  std::vector<int32_t> table(static_cast<size_t>(CeilDiv(end, limits_.block_size)));
  std::iota(table.begin(), table.end(), 0);
  piece.context = PutContext({&end, 1}, table, static_cast<int32_t>(table.size()),
                             /*max_length=*/0, limits_.num_input_blocks());
  piece.wanted_rows = piece.tokens.rows;
  arrays_.Upload();
  return piece;
}

const int32_t* StepInputs::PutOffsets(const EncoderBatch& batch) {
  // Usually these are whole sequences of the batch that was encoded, whose offsets are already on
  // the device.
  const std::vector<int32_t>& known = encoder_offsets_;
  const auto first = std::lower_bound(known.begin(), known.end(), batch.offsets.front());
  if (batch.offsets.size() <= static_cast<size_t>(known.end() - first) &&
      std::equal(batch.offsets.begin(), batch.offsets.end(), first)) {
    return device_encoder_offsets_ + (first - known.begin());
  }
  encoder_offsets_.clear();
  arrays_.Clear();
  const int32_t* offsets = arrays_.Add(batch.offsets);
  arrays_.Upload();
  return offsets;
}

IndexArrays::Array StepInputs::PutTokenIds(std::span<const int32_t> ids, int32_t vocab_size) {
  CheckWithin(ids, vocab_size);
  const IndexArrays::Array array = arrays_.Add(ids.size());
  std::copy(ids.begin(), ids.end(), array.host.begin());
  return array;
}

PackedRows StepInputs::PutRows(std::span<const int32_t> offsets, size_t num_tokens, bool in_place) {
  BEAMLINE_CHECK(num_tokens > 0 && num_tokens <= static_cast<size_t>(limits_.max_batch_tokens));
  BEAMLINE_CHECK(offsets.size() >= 2 &&
                 offsets.size() <= static_cast<size_t>(limits_.max_sequences) + 1);
  BEAMLINE_CHECK(offsets.front() == 0 && offsets.back() == static_cast<int32_t>(num_tokens));
  PackedRows rows;
  rows.num_rows = static_cast<int>(num_tokens);
  rows.num_sequences = static_cast<int>(offsets.size()) - 1;
  for (int s = 0; s < rows.num_sequences; ++s) {
    BEAMLINE_CHECK(offsets[s] <= offsets[s + 1]);  // padding sequences may have no rows
    rows.max_length = std::max(rows.max_length, offsets[s + 1] - offsets[s]);
  }
  rows.offsets = in_place ? static_cast<const int32_t*>(one_text_offsets_->data()) +
                                kOffsetsStride * num_tokens
                          : arrays_.Add(offsets);
  return rows;
}

PagedContext StepInputs::PutContext(std::span<const int32_t> lengths,
                                    std::span<const int32_t> tables, int32_t max_blocks,
                                    int32_t max_length, int32_t num_blocks) {
  BEAMLINE_CHECK(tables.size() == lengths.size() * max_blocks);
  CheckWithin(tables, num_blocks);
  PagedContext context;
  context.max_length = std::max(max_length, *std::max_element(lengths.begin(), lengths.end()));
  BEAMLINE_CHECK(context.max_length <= max_blocks * limits_.block_size);
  context.lengths = arrays_.Add(lengths);
  context.tables = arrays_.Add(tables);
  context.max_blocks = max_blocks;
  return context;
}

void StepInputs::PutRest(const StepBatch& batch, DecoderInputs& inputs) {
  PackedRows& rows = inputs.tokens.rows;
  if (!backend_->Records() || rows.max_length < 2) return;
  const std::span<const int32_t> offsets = batch.query_offsets;
  int num_single = 0;
  while (num_single < rows.num_sequences && offsets[num_single + 1] == num_single + 1) ++num_single;
  if (num_single < kFewestApart) return;
  rows.num_single = num_single;
  const IndexArrays::Array rest = arrays_.Add(offsets.size() - static_cast<size_t>(num_single));
  for (size_t s = 0; s < rest.host.size(); ++s) {
    rest.host[s] = offsets[static_cast<size_t>(num_single) + s] - num_single;
  }
  rows.rest_offsets = rest.device;
  inputs.context.max_single_length =
      *std::max_element(batch.context_lengths.begin(), batch.context_lengths.begin() + num_single);
}

void StepInputs::PutWantedRows(const StepBatch& batch, DecoderInputs& inputs) {
  const PackedRows& rows = inputs.tokens.rows;
  const std::span<const int32_t> wanted = batch.logits_rows;
  BEAMLINE_CHECK(wanted.size() <= static_cast<size_t>(limits_.max_logits_rows));
  CheckWithin(wanted, rows.num_rows);
  for (size_t i = 1; i < wanted.size(); ++i) BEAMLINE_CHECK(wanted[i - 1] < wanted[i]);
  inputs.wanted_rows = rows;
  if (wanted.size() == static_cast<size_t>(rows.num_rows)) return;  // always true in decode steps

  PackedRows& kept = inputs.wanted_rows;
  kept.num_rows = static_cast<int>(wanted.size());
  kept.max_length = 0;
  const IndexArrays::Array offsets = arrays_.Add(batch.query_offsets.size());
  for (size_t s = 0; s < offsets.host.size(); ++s) {
    const auto end = std::lower_bound(wanted.begin(), wanted.end(), batch.query_offsets[s]);
    offsets.host[s] = static_cast<int32_t>(end - wanted.begin());
    if (s > 0) kept.max_length = std::max(kept.max_length, offsets.host[s] - offsets.host[s - 1]);
  }
  kept.offsets = offsets.device;
  inputs.wanted = arrays_.Add(wanted);
}

}  // namespace beamline
