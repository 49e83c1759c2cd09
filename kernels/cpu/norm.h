// The norm of one row, for operators that apply one.
#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace beamline::cpu {

struct NormRowParams {
  NormKind kind = NormKind::kLayerNorm;
  const float* x = nullptr;         // [hidden_size]
  const float* residual = nullptr;  // [hidden_size]; may be null
  const float* gain = nullptr;      // [hidden_size]
  const float* bias = nullptr;      // [hidden_size]; may be null
  float epsilon = 0;
  size_t hidden_size = 0;
  float* sum = nullptr;           // [hidden_size], receives x + residual; may be x or residual
  const float* addend = nullptr;  // [hidden_size], added after the norm; may be null
  float* y = nullptr;             // [hidden_size]; may be any of the above
};

void NormalizeRow(const NormRowParams& params);

}  // namespace beamline::cpu
