// One generation request in a replica: its sequences, their cache blocks and its decoder.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/api/request.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/prefix_index.h"
#include "engine/decoding/group_decoder.h"
#include "engine/scheduling/job.h"

namespace beamline {

// One growing list of tokens with its cache blocks.
struct Sequence {
  TokenIds tokens;           // the decoder's ids: prompt, then generated; the last may be unknown
  int32_t num_computed = 0;  // number of tokens that are in the cache
  int32_t num_logits = 1;    // last tokens whose logits are needed, all in one step
  BlockTable blocks;
  std::vector<BlockKey> keys;  // keys of its full blocks, as far as computed
};

struct Group : Job<GenerateSink, GenerateResult> {
  std::unique_ptr<GroupDecoder> decoder;
  std::string cache_salt;     // only requests with the same salt share cached prefixes
  int32_t cached_tokens = 0;  // prompt tokens found in the cache at the first admission
  int32_t prompt_tokens = 0;  // for the usage: encoder input, or decoder prompt
  uint64_t seed = 0;

  int32_t first_position = 0;  // table row of its position 0, with which its keys and values were
                               // computed

  TokenIds encoder_ids;  // empty for decoder-only models
  BlockTable memory;     // blocks of the encoder's keys and values
  std::vector<Sequence> rows;

  bool running = false;
  int32_t held_priority = std::numeric_limits<int32_t>::min();  // priority it holds while it runs
  int32_t lane = 0;                               // while it runs: the lane whose steps compute it
  bool awaits_results = false;                    // with several lanes: its logits are being
                                                  // computed
  uint64_t admission = 0;                         // order of admission
  uint64_t last_prompt_step = 0;                  // the last step that had tokens of its prompt
  int32_t counted_tokens = 0;                     // generated tokens already in the statistics
  std::chrono::nanoseconds first_token_time{-1};  // arrival to the first token

  // Sends new certain output to the sink, if the sink wants deltas.
  void SendDeltas();
  // Answers with the decoder's sequences. REQUIRES: the decoder has finished.
  void Finish(Clock::time_point now);
  // Length of its longest sequence, including given tokens.
  int32_t length() const;
  // Tokens of its prompt and generated tokens, so far.
  int64_t used_tokens() const;
  void Expire(Clock::time_point now);
};

}  // namespace beamline
