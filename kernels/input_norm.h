// Norms around a product: an input_norm as an operator of its own, for a device, or a shape, that
// does not fuse the two; which norms of ProjectHeads are of all heads together.
#pragma once

#include "kernels/backend.h"

namespace beamline {

// Params: MatMulParams or ProjectHeadsParams.
template <typename Params>
bool HasInputNorm(const Params& params) {
  return !params.input_norm.gain.empty();
}

// The first: normed = norm(x).
template <typename Params>
NormParams InputNormOf(const Params& params) {
  NormParams norm;
  norm.kind = params.input_norm.kind;
  norm.x = params.x;
  norm.gain = params.input_norm.gain;
  norm.bias = params.input_norm.bias;
  norm.epsilon = params.input_norm.epsilon;
  norm.y = params.normed;
  return norm;
}

// The second: the product of `normed`.
template <typename Params>
Params ProductOfNormed(Params params) {
  params.x = params.normed;
  params.input_norm = {};
  params.normed = {};
  return params;
}

// Whether a norm of queries, or of keys, is of all heads together. Of a single head both are one.
inline bool IsOfAllHeads(const FusedNorm& norm, int head_dim) {
  return !norm.gain.empty() && norm.gain.num_elements() != head_dim;
}

}  // namespace beamline
