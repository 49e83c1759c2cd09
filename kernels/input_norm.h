// Runs an input_norm as a separate operator, for a device or a shape that cannot fuse it with the
// product. Also tells which norms of ProjectHeads span all heads.
#pragma once

#include "kernels/backend.h"

namespace beamline {

// Params: MatMulParams or ProjectHeadsParams.
template <typename Params>
bool HasInputNorm(const Params& params) {
  return !params.input_norm.gain.empty();
}

// The first operator: normed = norm(x).
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

// The second operator: the product of `normed`.
template <typename Params>
Params ProductOfNormed(Params params) {
  params.x = params.normed;
  params.input_norm = {};
  params.normed = {};
  return params;
}

// True if a norm of queries or keys spans all heads together. With a single head both are the same.
inline bool IsOfAllHeads(const FusedNorm& norm, int head_dim) {
  return !norm.gain.empty() && norm.gain.num_elements() != head_dim;
}

}  // namespace beamline
