// Float32 products of one to four short rows and a weight of many features, such as logits.
#pragma once

#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {

// Computes the operator as SkinnyProduct does. REQUIRES: PickProduct chose kFloatRows.
void FloatRowsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);

}  // namespace beamline::cuda
