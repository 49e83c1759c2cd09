// A model's limits: what its options say, raised to what the model needs at least.
#pragma once

#include <cstdint>

#include "engine/api/model.h"
#include "engine/models/models.h"
#include "engine/transformer/step_limits.h"
#include "kernels/tensor.h"

namespace beamline {

// Whether inputs may be longer than a step: they are computed in pieces then
// (docs/decisions/0063-long-inputs-in-pieces.md).
bool ComputesInPieces(const TransformerSpec& spec, const ModelOptions& options);

// A step holds the longest input, of `max_input_tokens`, whole unless that ComputesInPieces, a
// token of every sequence that is generated, and the sequences of a request that leaves the
// decoding to the model. The cache has options.cache_bytes or, when that is 0, room for
// max_sequences of full length within `default_cache_bytes`; in any case for one request of full
// length with the sequences of the model's own decoding, so that no request is refused that sets
// nothing. Without a decoder there is none.
StepLimits MakeStepLimits(const ModelOptions& options, const ModelDescription& description,
                          int32_t max_input_tokens, DType cache_dtype, int64_t default_cache_bytes);

}  // namespace beamline
