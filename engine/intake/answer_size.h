// What an answer takes at least on its way to the client, as far as the request tells it: so that
// an answer that cannot be sent is not computed.
//
// Lower bounds in bytes of the contract's wire form (protobuf's): fields that are zero take
// nothing, and what depends on numbers yet to be computed counts as little as it can. So no answer
// is refused that would have been small enough.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/request.h"
#include "engine/decoding/resolved_decoding.h"
#include "engine/scheduling/encode_job.h"

namespace beamline {

// Of vectors of so many dimensions, one of each input or, with per_token, of each token.
int64_t LeastAnswerBytes(const EncodeJob& job, bool per_token, int32_t dimensions);

// Of a classifier's answer with the best `top` of `num_labels` classes, or so many of its inputs
// where each has one class.
int64_t LeastAnswerBytes(const EncodeJob& job, int32_t top, int32_t num_labels);

// `echo_bytes`: of the text before each sequence. `streams`: the sequences come in small messages,
// so that only the log-probabilities of the prompt, which come in one, count.
int64_t LeastAnswerBytes(const ResolvedDecoding& decoding, int32_t prompt_tokens,
                         int64_t echo_bytes, bool streams);

// Of a score with each token's log-probability.
int64_t LeastAnswerBytes(const std::vector<TokenIds>& continuations);

// OUT_OF_RANGE with both sizes when `bytes` is more than `most`; 0: any size will do.
absl::Status CheckAnswerSize(int64_t bytes, int64_t most);

}  // namespace beamline
