// One generation request inside a replica: its sequences, their cache blocks and its decoder.
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
  int32_t num_computed = 0;  // of them, in the cache
  int32_t num_logits = 1;    // last tokens whose logits are wanted, all in one step
  BlockTable blocks;
  std::vector<BlockKey> keys;  // of its full blocks, as far as somebody asked
};

struct Group : Job<GenerateSink, GenerateResult> {
  std::unique_ptr<GroupDecoder> decoder;
  std::string cache_salt;     // only requests of the same salt share cached beginnings
  int32_t cached_tokens = 0;  // of the prompt, found in the cache at the first admission
  int32_t prompt_tokens = 0;  // for the usage: the encoder's input, or the decoder's prompt
  uint64_t seed = 0;

  int32_t first_position = 0;  // of its sequences, as its keys and values were computed

  TokenIds encoder_ids;  // empty for decoder-only models
  BlockTable memory;     // where the encoder's keys and values lie
  std::vector<Sequence> rows;

  bool running = false;
  int32_t held_priority = std::numeric_limits<int32_t>::min();  // while it runs
  int32_t lane = 0;                               // of one that runs: whose steps compute it
  bool awaits_results = false;                    // of several lanes: its logits are being computed
  uint64_t admission = 0;                         // order of admission
  uint64_t last_prompt_step = 0;                  // the latest one with tokens of its prompt
  int32_t counted_tokens = 0;                     // generated ones, in the statistics so far
  std::chrono::nanoseconds first_token_time{-1};  // arrival to the first token

  // Streams what has become certain, to a sink that wants it.
  void SendDeltas();
  // Answers with what the decoder has. REQUIRES: it has finished.
  void Finish(Clock::time_point now);
  // Of its longest sequence, what is given of it included.
  int32_t length() const;
  // Of its prompt and of what it has generated, so far.
  int64_t used_tokens() const;
  void Expire(Clock::time_point now);
};

}  // namespace beamline
