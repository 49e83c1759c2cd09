// What a step may hold. Loading makes one of a model (engine/loading/make_limits.h); who plans,
// computes or rehearses the model's steps, and who sizes memory for them, reads it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace beamline {

struct StepLimits {
  int32_t max_batch_tokens = 4096;  // rows of one forward pass
  int32_t max_sequences = 256;      // that run at once, so that one step may have them all
  int32_t max_logits_rows = 256;    // of one step; at least any row's num_logits
  int32_t max_head_rows = 0;        // whose logits lie in memory at a time; 0: max_logits_rows
  int32_t max_candidates = 1;       // best tokens that a logits row is usually asked for
  int32_t num_blocks = 0;           // KV cache blocks, shared by self attention and encoder memory
  int32_t block_size = 16;          // positions per block
  // The running groups are divided into so many lanes, each of which may have a step under way: one
  // for each stage of a model whose layers are divided.
  int32_t num_lanes = 1;
  // The longest input, where inputs may be longer than a step and are computed in pieces; 0: a step
  // holds every input whole.
  int32_t max_input_tokens = 0;

  // Logits rows that the head computes together: a step of more has them in pieces of so many.
  int32_t head_rows() const {
    return max_head_rows > 0 ? std::min(max_head_rows, max_logits_rows) : max_logits_rows;
  }
  // Sequences that may compute one token each and want its logits.
  int32_t max_decode_rows() const {
    return std::min({max_sequences, head_rows(), max_batch_tokens});
  }
  // Logits rows of tokens that are computed together.
  int32_t max_verified_tokens() const { return std::min(head_rows(), max_batch_tokens); }
  // Blocks of the keys and values of one layer for the longest input, where it is not 0.
  int32_t num_input_blocks() const { return (max_input_tokens + block_size - 1) / block_size; }
  // Of the cache's blocks, those that admission keeps free for the running groups to grow into.
  int32_t watermark_blocks() const { return num_blocks / 32; }
};

}  // namespace beamline
