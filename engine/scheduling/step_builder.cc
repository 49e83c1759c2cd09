#include "engine/scheduling/step_builder.h"

#include <algorithm>

#include "base/math.h"

namespace beamline {
namespace {

// Fills one row of a rectangular array of block tables and pads it with block 0. No length reaches
// the padding.
void FillRow(const BlockTable& table, std::span<int32_t> row) {
  const auto end = std::copy(table.begin(), table.end(), row.begin());
  std::fill(end, row.end(), 0);
}

}  // namespace

void StepBuilder::Build(const StepPlan& plan, std::span<Group* const> groups,
                        std::span<const GroupState> states, GroupCache& cache,
                        const ParallelRanges& parallel) {
  encoder_batch_.token_ids.clear();
  encoder_batch_.slots.clear();
  encoder_batch_.offsets.assign(1, 0);
  copies_.clear();
  num_prefill_tokens_ = 0;
  num_decode_rows_ = 0;
  for (const int32_t group : plan.encode) AddEncoderInput(*groups[group], cache);
  AddChunks(plan, groups, states, cache);
  FindLogitsRows(groups, states);
  MakeRoom(groups);
  ForRanges(parallel, first_chunks_.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const size_t last = i + 1 < first_chunks_.size() ? first_chunks_[i + 1] : chunks_.size();
      for (size_t chunk = first_chunks_[i]; chunk < last; ++chunk) FillChunk(groups, chunk, cache);
    }
  });
  FindUnknownTokens(groups);
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

void StepBuilder::AddChunks(const StepPlan& plan, std::span<Group* const> groups,
                            std::span<const GroupState> states, GroupCache& cache) {
  chunks_.clear();
  first_chunks_.clear();
  step_batch_.query_offsets.assign(1, 0);
  max_blocks_ = 0;
  const int32_t block_size = cache.block_size();
  for (const RowChunk& planned : plan.chunks) {
    if (chunks_.empty() || planned.group != chunks_.back().planned.group) {
      first_chunks_.push_back(chunks_.size());
    }
    const RowState& state = states[planned.group].rows[planned.row];
    Chunk& chunk = chunks_.emplace_back();
    chunk.planned = planned;
    chunk.end = state.num_computed + planned.num_tokens;
    Group& group = *groups[planned.group];
    const bool in_prompt = group.encoder_ids.empty() && chunk.end <= group.prompt_tokens;
    const bool decodes = states[planned.group].generates && !in_prompt && state.num_computed > 0 &&
                         planned.num_tokens == state.num_logits;
    (decodes ? num_decode_rows_ : num_prefill_tokens_) += planned.num_tokens;
    const int32_t needed = CeilDiv(chunk.end, block_size);
    max_blocks_ = std::max({max_blocks_, needed, state.num_blocks});
    step_batch_.query_offsets.push_back(step_batch_.query_offsets.back() + planned.num_tokens);
    // Work that takes blocks, or makes a block a prefix for others, is done here.
    const bool ends_block = chunk.end / block_size > state.num_computed / block_size;
    if (needed <= state.num_blocks && !state.shared_tail && (!ends_block || cache.IsApart(group))) {
      continue;
    }
    cache.Grow(group, group.rows[planned.row], planned.num_tokens, copies_);
  }
}

void StepBuilder::MakeRoom(std::span<Group* const> groups) {
  max_memory_blocks_ = 0;
  for (const size_t first : first_chunks_) {
    const Group& group = *groups[chunks_[first].planned.group];
    max_memory_blocks_ = std::max(max_memory_blocks_, static_cast<int32_t>(group.memory.size()));
  }
  const auto num_tokens = static_cast<size_t>(step_batch_.query_offsets.back());
  const size_t num_rows = chunks_.size();
  step_batch_.token_ids.resize(num_tokens);
  step_batch_.positions.resize(num_tokens);
  step_batch_.slots.resize(num_tokens);
  step_batch_.context_lengths.resize(num_rows);
  step_batch_.max_blocks = max_blocks_;
  step_batch_.max_memory_blocks = max_memory_blocks_;
  step_batch_.block_tables.resize(num_rows * max_blocks_);
  step_batch_.memory_tables.resize(num_rows * max_memory_blocks_);
  step_batch_.memory_lengths.resize(max_memory_blocks_ == 0 ? 0 : num_rows);
}

void StepBuilder::FillChunk(std::span<Group* const> groups, size_t index, const GroupCache& cache) {
  Chunk& chunk = chunks_[index];
  Group& group = *groups[chunk.planned.group];
  Sequence& row = group.rows[chunk.planned.row];
  row.num_computed = chunk.end;
  int32_t token = step_batch_.query_offsets[index];
  for (int32_t position = chunk.end - chunk.planned.num_tokens; position < chunk.end;
       ++position, ++token) {
    step_batch_.token_ids[token] = std::max(row.tokens[position], 0);
    step_batch_.positions[token] = group.first_position + position;
    step_batch_.slots[token] = cache.Slot(row.blocks, position);
  }
  chunk.ends_unknown = row.tokens[chunk.end - 1] == kUnknownToken;
  step_batch_.context_lengths[index] = chunk.end;
  FillRow(row.blocks,
          std::span(step_batch_.block_tables).subspan(index * max_blocks_, max_blocks_));
  if (max_memory_blocks_ == 0) return;
  FillRow(
      group.memory,
      std::span(step_batch_.memory_tables).subspan(index * max_memory_blocks_, max_memory_blocks_));
  step_batch_.memory_lengths[index] = static_cast<int32_t>(group.encoder_ids.size());
}

void StepBuilder::FindUnknownTokens(std::span<Group* const> groups) {
  unknown_tokens_.clear();
  for (size_t sequence = 0; sequence < chunks_.size(); ++sequence) {
    const Chunk& chunk = chunks_[sequence];
    if (!chunk.ends_unknown) continue;
    unknown_tokens_.push_back({groups[chunk.planned.group], chunk.planned.row,
                               static_cast<int32_t>(sequence),
                               step_batch_.query_offsets[sequence + 1] - 1});
  }
}

void StepBuilder::FindLogitsRows(std::span<Group* const> groups,
                                 std::span<const GroupState> states) {
  step_batch_.logits_rows.clear();
  logits_ranges_.clear();
  for (size_t i = 0; i < first_chunks_.size(); ++i) {
    const size_t first = first_chunks_[i];
    const size_t last = i + 1 < first_chunks_.size() ? first_chunks_[i + 1] : chunks_.size();
    const int32_t index = chunks_[first].planned.group;
    const std::span<const RowState> rows = states[index].rows;
    bool complete = last - first == rows.size();
    for (size_t chunk = first; chunk < last; ++chunk) {
      complete = complete && chunks_[chunk].end == rows[chunks_[chunk].planned.row].num_tokens;
    }
    if (!complete) continue;
    LogitsRange range = {groups[index], static_cast<int32_t>(step_batch_.logits_rows.size()), 0};
    for (size_t sequence = first; sequence < last; ++sequence) {
      const int32_t num_logits = rows[chunks_[sequence].planned.row].num_logits;
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
