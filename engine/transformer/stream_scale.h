// Hidden states of some models grow from layer to layer beyond 65504, the largest float16. The
// residual stream of a stack whose branches begin with a norm is read by norms alone, and a norm's
// result does not change with a factor of what it reads, once its epsilon has the factor's square.
// So float16 holds the stream times a power of two: what each branch adds has the factor in its
// weights, and the products in front of the last ones have room for as much. transformers computes
// what is added in float32 instead (T5's _keep_in_fp32_modules), and so the stream.
#pragma once

#include "engine/transformer/spec.h"
#include "kernels/tensor.h"

namespace beamline {

// Of the range 65504 * 2^8; weights and streams of usual sizes stay normal numbers.
inline constexpr float kFloat16StreamScale = 0x1p-8f;

// The spec of the same model whose stacks hold hidden states times `scale`, a power of two:
// StackSpec::stream_scale and what follows from it. The weights are read by it (weights.h); the
// results are the same, to the bit where no number leaves the range of its type. REQUIRES: every
// stack's hidden states are read by norms alone (spec.exceeds_float16 says that they are).
TransformerSpec WithStreamScale(TransformerSpec spec, float scale);

// The spec as activations of that type compute it.
TransformerSpec SpecIn(const TransformerSpec& spec, DType activation_dtype);

}  // namespace beamline
