// A model's limits: what its options say, changed where the model or the cache cannot have it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/api/model.h"
#include "engine/models/models.h"
#include "engine/transformer/step_limits.h"
#include "kernels/tensor.h"

namespace beamline {

// Whether inputs of an encoder may be longer than a step: they are computed in pieces then
// (docs/decisions/0063-long-inputs-in-pieces.md).
bool ComputesInPieces(const TransformerSpec& spec, const ModelOptions& options);

// Bytes that the cache may take where options.cache_bytes is 0.
struct CacheRoom {
  int64_t usual = 0;
  int64_t most = 0;  // to hold one request of full length
};

// A step has options.max_batch_tokens at most, and prompts are computed in pieces. It has more
// where an encoder that does not compute in pieces has longer inputs, of `max_input_tokens`, and
// where a request that leaves the decoding to the model has more sequences. At most as many
// sequences run at once as a step has tokens. The cache has options.cache_bytes or, when that is 0,
// room for max_sequences of full length within room.usual; in any case for one request of full
// length with the sequences of the model's own decoding, so that no request is refused that sets
// nothing. Without a decoder there is none.
StepLimits MakeStepLimits(const ModelOptions& options, const ModelDescription& description,
                          int32_t max_input_tokens, DType cache_dtype, const CacheRoom& room);

// The longest sequence, in tokens, of which the cache holds such a request: at most the decoder's
// positions. 0: none, or no decoder.
int32_t LongestCached(const ModelOptions& options, const ModelDescription& description,
                      DType cache_dtype, const CacheRoom& room);

// Sentences for the log: where the limits are not what the options say, and why.
std::vector<std::string> LimitNotes(const ModelOptions& options, const StepLimits& limits);

}  // namespace beamline
