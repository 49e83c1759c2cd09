// Products of one to four rows after a norm, with weights whose blocks all run at once.
#pragma once

#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {

// Computes y = norm(x) W^T with the operator's epilogue, and params.normed. REQUIRES: PickProduct
// chose kRowParts and these tiles_per_block.
void RowPartsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                     int tiles_per_block);
void RowPartsProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                     int tiles_per_block);

}  // namespace beamline::cuda
