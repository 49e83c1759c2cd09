#include "engine/decoding/finish_rules.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace beamline {
namespace {

bool Contains(const TokenIds& ids, int32_t id) { return std::ranges::find(ids, id) != ids.end(); }

}  // namespace

FinishReason FinishAtToken(const ResolvedDecoding& decoding, int32_t token, int32_t num_tokens) {
  if (Contains(decoding.eos_token_ids, token)) return FinishReason::kEos;
  if (Contains(decoding.stop_token_ids, token)) return FinishReason::kStop;
  if (num_tokens >= decoding.max_new_tokens) return FinishReason::kLength;
  return FinishReason::kNone;
}

bool TokenHasText(const ResolvedDecoding& decoding, FinishReason reason_at_token) {
  return reason_at_token != FinishReason::kStop || decoding.include_stop;
}

int32_t NumFinishingTokens(const ResolvedDecoding& decoding) {
  absl::flat_hash_set<int32_t> ids(decoding.eos_token_ids.begin(), decoding.eos_token_ids.end());
  ids.insert(decoding.stop_token_ids.begin(), decoding.stop_token_ids.end());
  return static_cast<int32_t>(ids.size());
}

bool StopStringCounts(const ResolvedDecoding& decoding, int32_t num_tokens) {
  return !decoding.min_holds_stops || num_tokens > decoding.min_new_tokens;
}

TextOptions ResolvedTextOptions(const ResolvedDecoding& decoding) {
  return {.skip_special_tokens = decoding.output.skip_special_tokens,
          .include_stop = decoding.include_stop};
}

}  // namespace beamline
