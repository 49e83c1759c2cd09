// One encode request in a replica: its inputs are batched one by one and answered together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/api/request.h"
#include "engine/encoding/encoding.h"
#include "engine/scheduling/job.h"

namespace beamline {

// rank.fair_tag grows by the tokens of every input that starts.
struct EncodeJob : Job<EncodeSink, EncodeResult> {
  std::vector<TokenIds> inputs;
  std::vector<TokenIds> type_ids;  // as inputs, where one of them has types; else empty
  std::vector<std::vector<InputToken>> tokens;  // as inputs, where the answer has them; else empty
  Encoding encoding;  // what is made of them; complete when the job is given to a replica

  int64_t computed_tokens = 0;
  // num_started: inputs that are in a batch or started in pieces, in order. num_computed: inputs
  // that are done; an input computed in pieces may finish after later ones.
  size_t num_started = 0;
  size_t num_computed = 0;
  std::vector<Embedding> embeddings;  // as many as inputs

  // Answers the request with its embeddings.
  void Finish(Clock::time_point now) {
    EncodeResult result;
    for (const Embedding& embedding : embeddings) {
      result.usage.prompt_tokens += embedding.num_tokens;
    }
    result.embeddings = std::move(embeddings);
    result.tokens = std::move(tokens);
    if (encoding.answers != nullptr) result.masks = encoding.answers->TakeMasks();
    result.timing.queue = queue_time;
    result.timing.expected_queue = expected_queue;
    result.timing.total = now - rank.arrival;
    Answer(std::move(result));
  }
  // Input tokens used so far.
  int64_t used_tokens() const { return begun() ? input_tokens : 0; }
  void Expire(Clock::time_point) { Answer(WithUsedTokens(OverdueError(), used_tokens())); }
};

}  // namespace beamline
