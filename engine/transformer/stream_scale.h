// Keeps the residual stream of some models within float16. Their hidden states grow from layer to
// layer beyond 65504, the largest float16. If every branch begins with a norm, only norms read the
// residual stream. A norm's result does not change when its input is multiplied by a factor and its
// epsilon by the factor's square. So float16 stores the stream times a power of two. The weights of
// each branch's output include the factor, and the matmuls before have the same headroom.
// transformers instead computes the additions, and so the stream, in float32 (T5's
// _keep_in_fp32_modules).
#pragma once

#include "engine/transformer/spec.h"
#include "kernels/tensor.h"

namespace beamline {

// Extends the range to 65504 * 2^8; weights and streams of usual size remain normal numbers.
inline constexpr float kFloat16StreamScale = 0x1p-8f;

// The spec of the same model with hidden states stored times `scale`, a power of two: sets
// StackSpec::stream_scale and what depends on it. The weights are read accordingly (weights.h).
// Results are identical to the bit, unless a number leaves the range of its type. REQUIRES: only
// norms read the hidden states of every stack (guaranteed by spec.exceeds_float16).
TransformerSpec WithStreamScale(TransformerSpec spec, float scale);

// The spec to use with this activation type.
TransformerSpec SpecIn(const TransformerSpec& spec, DType activation_dtype);

}  // namespace beamline
