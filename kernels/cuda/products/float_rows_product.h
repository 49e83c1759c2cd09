// Products in float32 of one to four short rows and a weight of many features, as logits are.
#pragma once

#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {

// Computes the operator as SkinnyProduct does. False, and nothing is launched, for other types than
// float32, more rows than four or columns than 512, norms, gates, operands that are not aligned,
// and weights of so few features that a warp would have less than four.
bool FloatRowsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);

}  // namespace beamline::cuda
