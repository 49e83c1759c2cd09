// MatMul's epilogue, applied to a product before it is stored.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace beamline::cpu {

// A tile of the product and its destination: y = act(tile + bias), then * (up + up_bias), softcap,
// + residual, in this order.
struct EpilogueParams {
  const float* tile = nullptr;  // [num_rows, num_cols], rows tile_stride apart
  const float* up = nullptr;    // as tile; null unless gated
  int64_t tile_stride = 0;
  const float* bias = nullptr;      // [num_cols]; may be null
  const float* up_bias = nullptr;   // [num_cols]; may be null
  const float* residual = nullptr;  // [num_rows, num_cols], rows residual_stride apart; may be null
  int64_t residual_stride = 0;
  float* y = nullptr;  // [num_rows, num_cols], rows y_stride apart
  int64_t y_stride = 0;
  int num_rows = 0;
  int num_cols = 0;
  Activation activation = Activation::kNone;
  float softcap = 0.0f;  // 0: none
};

void ApplyEpilogue(const EpilogueParams& params);

}  // namespace beamline::cpu
