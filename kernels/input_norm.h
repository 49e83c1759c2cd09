// A product with an input_norm as two operators, for a device, or a shape, that does not fuse them.
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

}  // namespace beamline
