// Turns a plan into the packed batches that the transformer computes, and allocates their blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/scheduling/group.h"
#include "engine/scheduling/group_cache.h"
#include "engine/scheduling/planner.h"
#include "engine/transformer/transformer.h"

namespace beamline {

// Logits rows [begin, begin + count) of the step belong to a group's rows, in order: for each row,
// its last num_logits tokens.
struct LogitsRange {
  Group* group = nullptr;
  int32_t begin = 0;
  int32_t count = 0;
};

// A token of the step that is not known yet; the batch has id 0 in its place.
struct UnknownToken {
  const Group* group = nullptr;
  int32_t row = 0;       // index in the group
  int32_t sequence = 0;  // index in the batch
  int32_t token = 0;     // index in the batch
};

// Calls its argument for ranges that together cover [0, count): once on the caller's thread, or in
// parallel on several threads. Returns when all calls are done.
using ParallelRanges =
    std::function<void(size_t count, absl::FunctionRef<void(size_t begin, size_t end)>)>;
// Runs on the caller's thread if `parallel` is null.
inline void ForRanges(const ParallelRanges& parallel, size_t count,
                      absl::FunctionRef<void(size_t begin, size_t end)> body) {
  if (parallel != nullptr) return parallel(count, body);
  body(0, count);
}

class StepBuilder {
 public:
  // Allocates from the cache, fills the batches and marks the planned tokens as computed. states:
  // the states of the groups with which the plan was made. parallel: runs the filling of the
  // groups' rows; null: on the caller's thread.
  void Build(const StepPlan& plan, std::span<Group* const> groups,
             std::span<const GroupState> states, GroupCache& cache,
             const ParallelRanges& parallel = nullptr);

  // A step that was built elsewhere, with only the parts that a device needs.
  static StepBuilder Of(EncoderBatch encoder_batch, StepBatch step_batch,
                        std::vector<BlockCopy> copies) {
    StepBuilder builder;
    builder.encoder_batch_ = std::move(encoder_batch);
    builder.step_batch_ = std::move(step_batch);
    builder.copies_ = std::move(copies);
    return builder;
  }

  const EncoderBatch& encoder_batch() const {
    return encoder_batch_;
  }  // no sequences: nothing to encode
  const StepBatch& step_batch() const { return step_batch_; }
  std::span<const BlockCopy> copies() const { return copies_; }
  std::span<const LogitsRange> logits_ranges() const { return logits_ranges_; }
  std::span<const UnknownToken> unknown_tokens() const { return unknown_tokens_; }
  int32_t num_prefill_tokens() const { return num_prefill_tokens_; }
  int32_t num_decode_rows() const { return num_decode_rows_; }

 private:
  // One sequence of the batch.
  struct Chunk {
    RowChunk planned;
    int32_t end = 0;            // end of its positions
    bool ends_unknown = false;  // its last token is not known yet
  };

  void AddEncoderInput(Group& group, GroupCache& cache);
  void AddChunks(const StepPlan& plan, std::span<Group* const> groups,
                 std::span<const GroupState> states, GroupCache& cache);
  void FindLogitsRows(std::span<Group* const> groups, std::span<const GroupState> states);
  // Sizes the arrays that FillChunk writes.
  void MakeRoom(std::span<Group* const> groups);
  // Uses only the chunk's row and its places in the batch, so threads may fill chunks of different
  // groups in parallel.
  void FillChunk(std::span<Group* const> groups, size_t index, const GroupCache& cache);
  void FindUnknownTokens(std::span<Group* const> groups);

  EncoderBatch encoder_batch_;
  StepBatch step_batch_;
  std::vector<BlockCopy> copies_;
  std::vector<LogitsRange> logits_ranges_;
  std::vector<UnknownToken> unknown_tokens_;
  int32_t num_prefill_tokens_ = 0;
  int32_t num_decode_rows_ = 0;

  // Scratch of the step being built; kept to reuse memory.
  std::vector<Chunk> chunks_;
  std::vector<size_t> first_chunks_;  // per group
  int32_t max_blocks_ = 0, max_memory_blocks_ = 0;
};

}  // namespace beamline
