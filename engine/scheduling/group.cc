#include "engine/scheduling/group.h"

#include <algorithm>
#include <utility>

namespace beamline {

void Group::SendDeltas() {
  if (!sink->wants_deltas()) return;
  for (GenerateDelta& delta : decoder->TakeDeltas()) sink->OnDelta(std::move(delta));
}

void Group::Finish(Clock::time_point now) {
  SendDeltas();
  GenerateResult result;
  result.usage.prompt_tokens = prompt_tokens;
  result.usage.cached_tokens = cached_tokens;
  result.usage.generated_tokens = decoder->num_generated_tokens();
  result.sequences = decoder->TakeSequences();
  result.seed = seed;
  result.prompt_logprobs = decoder->TakePromptLogprobs();
  result.timing.queue = std::max(queue_time, std::chrono::nanoseconds(0));
  result.timing.expected_queue = expected_queue;
  result.timing.first_token = std::max(first_token_time, std::chrono::nanoseconds(0));
  result.timing.total = now - rank.arrival;
  Answer(std::move(result));
}

int32_t Group::length() const {
  int32_t length = decoder->given_length();
  for (const Sequence& row : rows) {
    length = std::max(length, static_cast<int32_t>(row.tokens.size()));
  }
  return length;
}

int64_t Group::used_tokens() const {
  return begun() ? input_tokens + decoder->num_generated_tokens() : 0;
}

void Group::Expire(Clock::time_point now) {
  // A stream keeps what it has received; an incomplete unary answer is an error.
  if (!sink->wants_deltas() || decoder->num_generated_tokens() == 0) {
    return Answer(WithUsedTokens(OverdueError(), used_tokens()));
  }
  decoder->Stop(FinishReason::kDeadline);
  Finish(now);
}

}  // namespace beamline
