// Minimum size of an answer on the wire, as far as the request determines it, so that an answer
// that cannot be sent is not computed.
//
// Lower bounds in bytes of the API's wire format (protobuf). Fields that are zero take no bytes,
// and values not yet computed count with their minimum size. So no answer is rejected that would
// have been small enough.
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

// For Classify: an answer with the best `top` of `num_labels` classes. If each input has one class:
// an answer for the best `top` inputs.
int64_t LeastAnswerBytes(const EncodeJob& job, int32_t top, int32_t num_labels);

// `echo_bytes`: size of the text echoed before each sequence. `streams`: the answer comes in small
// messages, so only the prompt log-probabilities count, which come in one message.
int64_t LeastAnswerBytes(const ResolvedDecoding& decoding, int32_t prompt_tokens,
                         int64_t echo_bytes, bool streams);

// For Score with log-probabilities of each token.
int64_t LeastAnswerBytes(const std::vector<TokenIds>& continuations);

// OUT_OF_RANGE with both sizes if `bytes` exceeds `most`; 0: no limit.
absl::Status CheckAnswerSize(int64_t bytes, int64_t most);

}  // namespace beamline
