// Products of one row behind its norm, of weights that fit on the multiprocessors at once.
#pragma once

#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {

// Computes y = norm(x) W^T with the operator's epilogue, and params.normed, by a kernel for one row
// of 16 bits. False, and nothing is launched, where there is no norm, the row is longer than 1,024
// elements, more rows are given, operands are not aligned, or the weight has too many rows.
bool NormedRowProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
bool NormedRowProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight);

}  // namespace beamline::cuda
