// Products of one to four rows behind a norm, of weights whose blocks run at once.
#pragma once

#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {

// Computes y = norm(x) W^T with the operator's epilogue, and params.normed. False, and nothing is
// launched, where there is no norm, for more rows than four or columns than 1,024, other types of x
// or y than those of 16 bits, operands that are not aligned, or a weight of too many rows.
bool RowPartsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
bool RowPartsProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight);

}  // namespace beamline::cuda
