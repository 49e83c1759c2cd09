// Products of many rows that apply the exact GELU to their output, in float16 and bfloat16 on
// Hopper (wgmma_product.cu). cuBLASLt only has the tanh form, and a separate pass reads and writes
// the product once more.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/wgmma_tiles.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

struct WgmmaProductParams {
  Tensor x;       // [num_rows, in_features], float16 or bfloat16
  Tensor weight;  // [out_features, in_features], of x's type
  Tensor bias;    // [out_features], of x's type; may be empty
  Tensor y;       // [num_rows, out_features], of x's type; must not alias x
};

// y = gelu(x weight^T + bias). The bits of a row depend on that row alone. REQUIRES: the device
// has_wgmma(); `tiles` is not kNone; the matrices' rows start at multiples of 16 bytes, and
// out_features are whole 16-byte accesses.
void WgmmaGeluProduct(Device& device, const WgmmaProductParams& params, WgmmaTiles tiles);

}  // namespace beamline::cuda
