// The limits of a step. Loading derives one object per model (engine/loading/make_limits.h).
// Planning, computing, warm-up and memory sizing all use it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace beamline {

struct StepLimits {
  int32_t max_batch_tokens = 4096;  // rows of one forward pass
  int32_t max_sequences = 256;      // that run at once; one step may include all of them
  int32_t max_logits_rows = 256;    // per step; at least any row's num_logits
  int32_t max_head_rows = 0;        // rows whose logits are in memory at a time; 0: max_logits_rows
  int32_t max_candidates = 1;       // best tokens that a logits row usually requests
  int32_t num_blocks = 0;           // KV cache blocks, for self-attention and encoder memory
  int32_t block_size = 16;          // positions per block
  // The running groups are divided into this number of lanes, each with at most one step in
  // progress. With pipeline parallelism: one lane per stage.
  int32_t num_lanes = 1;
  // The longest input, if inputs may exceed a step and are computed in pieces; 0: every input fits
  // a step.
  int32_t max_input_tokens = 0;

  // Logits rows that the head computes at once; larger steps are processed in chunks of this size.
  int32_t head_rows() const {
    return max_head_rows > 0 ? std::min(max_head_rows, max_logits_rows) : max_logits_rows;
  }
  // Maximum sequences that each compute one token with logits.
  int32_t max_decode_rows() const {
    return std::min({max_sequences, head_rows(), max_batch_tokens});
  }
  // Maximum tokens with logits in one step.
  int32_t max_verified_tokens() const { return std::min(head_rows(), max_batch_tokens); }
  // Blocks for one layer's keys and values of the longest input, if max_input_tokens is not 0.
  int32_t num_input_blocks() const { return (max_input_tokens + block_size - 1) / block_size; }
  // Cache blocks that admission keeps free so that running groups can grow.
  int32_t watermark_blocks() const { return num_blocks / 32; }
};

}  // namespace beamline
