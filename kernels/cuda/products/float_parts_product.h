// Products in float32 of one to four rows and a small weight, whose blocks run at once.
#pragma once

#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {

// Computes the operator as SkinnyProduct does, with its norm. False, and nothing is launched, for
// other types than float32, more rows than four, gates and rotary embedding, operands that are not
// aligned, more columns than 2,048, behind a norm than 512 or than whole warps have, and a weight
// of too many rows.
bool FloatPartsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
bool FloatPartsProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight);

}  // namespace beamline::cuda
