// Float32 products of one to four rows and a small weight, whose blocks all run at once.
#pragma once

#include "kernels/cuda/products/matmul.h"

namespace beamline::cuda {

// Computes the operator as SkinnyProduct does, including its norm. REQUIRES: PickProduct chose
// kFloatParts and these units_per_block.
void FloatPartsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight,
                       int units_per_block);
void FloatPartsProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight,
                       int units_per_block);

}  // namespace beamline::cuda
