#include "engine/intake/answer_size.h"

#include <algorithm>

#include "fmt/format.h"

namespace beamline {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int64_t kMessageBytes = 2;  // tag and length of a message within another
constexpr int64_t kTagBytes = 1;

int64_t VarintBytes(int32_t id) {
  int64_t bytes = 1;
  while ((id >>= 7) > 0) ++bytes;
  return bytes;
}

// Minimum bytes of one position's log-probabilities. Id and logarithm may be zero for the chosen
// token, and for one of the `num_top` most likely tokens.
int64_t LeastPositionBytes(int32_t num_top) {
  constexpr int64_t kTokenBytes = kMessageBytes + (kTagBytes + 1) + (kTagBytes + kFloatBytes);
  const int64_t chosen = kMessageBytes + kMessageBytes;
  return num_top == 0 ? chosen : chosen + kMessageBytes + (num_top - 1) * kTokenBytes;
}

// Tokens that each sequence certainly has.
int32_t LeastNewTokens(const ResolvedDecoding& decoding) {
  const bool stops = !decoding.stop.empty() || !decoding.stop_token_ids.empty();
  if (stops && !decoding.min_holds_stops) return 0;
  return !stops && decoding.eos_token_ids.empty()
             ? decoding.max_new_tokens
             : std::min(decoding.min_new_tokens, decoding.max_new_tokens);
}

}  // namespace

int64_t LeastAnswerBytes(const EncodeJob& job, bool per_token, int32_t dimensions) {
  int64_t vectors = 0;
  for (const TokenIds& ids : job.inputs) {
    vectors += per_token ? static_cast<int64_t>(ids.size()) : 1;
  }
  return vectors * dimensions * kFloatBytes;
}

int64_t LeastAnswerBytes(const EncodeJob& job, int32_t top, int32_t num_labels) {
  const auto num_inputs = static_cast<int64_t>(job.inputs.size());
  if (num_labels == 1) return std::min<int64_t>(top, num_inputs) * kMessageBytes;
  return num_inputs * std::min(top, num_labels) * kMessageBytes;
}

int64_t LeastAnswerBytes(const ResolvedDecoding& decoding, int32_t prompt_tokens,
                         int64_t echo_bytes, bool streams) {
  const OutputOptions& output = decoding.output;
  int64_t bytes = 0;
  if (output.prompt_logprobs.has_value()) {
    bytes += (prompt_tokens - 1) * LeastPositionBytes(*output.prompt_logprobs);
  }
  if (streams) return bytes;
  const int64_t token_bytes = (output.return_token_ids ? 1 : 0) +
                              (output.return_logprobs ? LeastPositionBytes(output.logprobs) : 0);
  return bytes + decoding.num_sequences * (echo_bytes + LeastNewTokens(decoding) * token_bytes);
}

int64_t LeastAnswerBytes(const std::vector<TokenIds>& continuations) {
  int64_t bytes = 0;
  for (const TokenIds& ids : continuations) {
    for (const int32_t id : ids)
      bytes += kMessageBytes + (id > 0 ? kTagBytes + VarintBytes(id) : 0);
  }
  return bytes;
}

absl::Status CheckAnswerSize(int64_t bytes, int64_t most) {
  if (most == 0 || bytes <= most) return absl::OkStatus();
  return absl::OutOfRangeError(
      fmt::format("the answer has at least {} bytes; accepted: at most {}", bytes, most));
}

}  // namespace beamline
