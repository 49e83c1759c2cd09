#include "engine/scheduling/step_builder.h"

#include <algorithm>

namespace beamline {
namespace {

// A row of block tables that are one rectangle, padded with block 0, which no length reaches.
void FillRow(const BlockTable& table, std::span<int32_t> row) {
  const auto end = std::copy(table.begin(), table.end(), row.begin());
  std::fill(end, row.end(), 0);
}

}  // namespace

void StepBuilder::Build(const StepPlan& plan, std::span<Group* const> groups, GroupCache& cache) {
  encoder_batch_.token_ids.clear();
  encoder_batch_.slots.clear();
  encoder_batch_.offsets.assign(1, 0);
  copies_.clear();
  step_batch_.token_ids.clear();
  step_batch_.positions.clear();
  step_batch_.slots.clear();
  step_batch_.query_offsets.assign(1, 0);
  step_batch_.context_lengths.clear();
  unknown_tokens_.clear();
  num_prefill_tokens_ = 0;
  num_decode_rows_ = 0;

  for (const int32_t group : plan.encode) AddEncoderInput(*groups[group], cache);
  for (const RowChunk& chunk : plan.chunks) AddChunk(*groups[chunk.group], chunk, cache);
  FillTables(groups, plan);
  FindLogitsRows(groups, plan);
}

void StepBuilder::AddEncoderInput(Group& group, GroupCache& cache) {
  cache.AllocateMemory(group);
  const auto length = static_cast<int32_t>(group.encoder_ids.size());
  encoder_batch_.token_ids.insert(encoder_batch_.token_ids.end(), group.encoder_ids.begin(),
                                  group.encoder_ids.end());
  for (int32_t position = 0; position < length; ++position) {
    encoder_batch_.slots.push_back(cache.Slot(group.memory, position));
  }
  encoder_batch_.offsets.push_back(encoder_batch_.offsets.back() + length);
  num_prefill_tokens_ += length;
}

void StepBuilder::AddChunk(Group& group, const RowChunk& chunk, GroupCache& cache) {
  Sequence& row = group.rows[chunk.row];
  (row.num_computed > 0 && chunk.num_tokens == row.num_logits ? num_decode_rows_
                                                              : num_prefill_tokens_) +=
      chunk.num_tokens;
  const int32_t begin = row.num_computed;
  cache.Grow(group, row, chunk.num_tokens, copies_);
  for (int32_t position = begin; position < row.num_computed; ++position) {
    if (row.tokens[position] == kUnknownToken) {
      unknown_tokens_.push_back({&group, chunk.row, step_batch_.num_sequences(),
                                 static_cast<int32_t>(step_batch_.token_ids.size())});
    }
    step_batch_.token_ids.push_back(std::max(row.tokens[position], 0));
    step_batch_.positions.push_back(position);
    step_batch_.slots.push_back(cache.Slot(row.blocks, position));
  }
  step_batch_.query_offsets.push_back(step_batch_.query_offsets.back() + chunk.num_tokens);
  step_batch_.context_lengths.push_back(row.num_computed);
}

void StepBuilder::FillTables(std::span<Group* const> groups, const StepPlan& plan) {
  size_t max_blocks = 0, max_memory_blocks = 0;
  for (const RowChunk& chunk : plan.chunks) {
    const Group& group = *groups[chunk.group];
    max_blocks = std::max(max_blocks, group.rows[chunk.row].blocks.size());
    max_memory_blocks = std::max(max_memory_blocks, group.memory.size());
  }
  step_batch_.max_blocks = static_cast<int32_t>(max_blocks);
  step_batch_.max_memory_blocks = static_cast<int32_t>(max_memory_blocks);
  const size_t num_rows = plan.chunks.size();
  step_batch_.block_tables.resize(num_rows * max_blocks);
  step_batch_.memory_tables.resize(num_rows * max_memory_blocks);
  step_batch_.memory_lengths.resize(max_memory_blocks == 0 ? 0 : num_rows);
  const std::span tables(step_batch_.block_tables), memory_tables(step_batch_.memory_tables);
  for (size_t row = 0; row < num_rows; ++row) {
    const RowChunk& chunk = plan.chunks[row];
    const Group& group = *groups[chunk.group];
    FillRow(group.rows[chunk.row].blocks, tables.subspan(row * max_blocks, max_blocks));
    if (max_memory_blocks == 0) continue;
    FillRow(group.memory, memory_tables.subspan(row * max_memory_blocks, max_memory_blocks));
    step_batch_.memory_lengths[row] = static_cast<int32_t>(group.encoder_ids.size());
  }
}

void StepBuilder::FindLogitsRows(std::span<Group* const> groups, const StepPlan& plan) {
  step_batch_.logits_rows.clear();
  logits_ranges_.clear();
  for (size_t first = 0, last = 0; first < plan.chunks.size(); first = last) {
    const int32_t index = plan.chunks[first].group;
    while (last < plan.chunks.size() && plan.chunks[last].group == index) ++last;
    Group& group = *groups[index];
    const bool complete =
        last - first == group.rows.size() &&
        std::all_of(group.rows.begin(), group.rows.end(), [](const Sequence& row) {
          return row.num_computed == static_cast<int32_t>(row.tokens.size());
        });
    if (!complete) continue;
    LogitsRange range = {&group, static_cast<int32_t>(step_batch_.logits_rows.size()), 0};
    for (size_t sequence = first; sequence < last; ++sequence) {
      const int32_t num_logits = group.rows[plan.chunks[sequence].row].num_logits;
      const int32_t end = step_batch_.query_offsets[sequence + 1];
      for (int32_t token = end - num_logits; token < end; ++token) {
        step_batch_.logits_rows.push_back(token);
      }
      range.count += num_logits;
    }
    logits_ranges_.push_back(range);
  }
}

}  // namespace beamline
