// Turns a plan into the packed batches that the transformer computes, and takes the blocks they
// need.
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

// Logits rows [begin, begin + count) of the step belong to a group's rows, in order: of each row
// its last num_logits tokens.
struct LogitsRange {
  Group* group = nullptr;
  int32_t begin = 0;
  int32_t count = 0;
};

// A token that the step computes and nobody knows yet; the batch has id 0 in its place.
struct UnknownToken {
  const Group* group = nullptr;
  int32_t row = 0;       // of the group
  int32_t sequence = 0;  // of the batch
  int32_t token = 0;     // of the batch
};

// Calls its argument for ranges that together are [0, count): once, on the caller's thread, or on
// several threads at a time. Returns when all are done.
using ParallelRanges =
    std::function<void(size_t count, absl::FunctionRef<void(size_t begin, size_t end)>)>;
// By the caller where `parallel` is null.
inline void ForRanges(const ParallelRanges& parallel, size_t count,
                      absl::FunctionRef<void(size_t begin, size_t end)> body) {
  if (parallel != nullptr) return parallel(count, body);
  body(0, count);
}

class StepBuilder {
 public:
  // Allocates from the cache, fills the batches and marks the planned tokens as computed. states:
  // of the groups, as the plan was made of them. parallel: who fills in what each group's rows are;
  // null: the caller.
  void Build(const StepPlan& plan, std::span<Group* const> groups,
             std::span<const GroupState> states, GroupCache& cache,
             const ParallelRanges& parallel = nullptr);

  // What was built elsewhere, as far as a device needs it.
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
  // A sequence of the batch.
  struct Chunk {
    RowChunk planned;
    int32_t end = 0;            // of its positions
    bool ends_unknown = false;  // nobody knows its last token yet
  };

  void AddEncoderInput(Group& group, GroupCache& cache);
  void AddChunks(const StepPlan& plan, std::span<Group* const> groups,
                 std::span<const GroupState> states, GroupCache& cache);
  void FindLogitsRows(std::span<Group* const> groups, std::span<const GroupState> states);
  // For what FillChunk writes.
  void MakeRoom(std::span<Group* const> groups);
  // Uses nothing but the chunk's row and its places in the batch: threads fill those of different
  // groups at a time.
  void FillChunk(std::span<Group* const> groups, size_t index, const GroupCache& cache);
  void FindUnknownTokens(std::span<Group* const> groups);

  EncoderBatch encoder_batch_;
  StepBatch step_batch_;
  std::vector<BlockCopy> copies_;
  std::vector<LogitsRange> logits_ranges_;
  std::vector<UnknownToken> unknown_tokens_;
  int32_t num_prefill_tokens_ = 0;
  int32_t num_decode_rows_ = 0;

  // Of the step being built; kept for their memory.
  std::vector<Chunk> chunks_;
  std::vector<size_t> first_chunks_;  // of each group
  int32_t max_blocks_ = 0, max_memory_blocks_ = 0;
};

}  // namespace beamline
