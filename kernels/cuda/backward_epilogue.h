// The gradient epilogues as a pass over a finished product: faster than cuBLASLt's own at some
// sizes, and there where it has none.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/lt_product.h"

namespace beamline::cuda {

// Whether BackwardEpilogue computes this product's epilogue.
bool HasBackwardEpilogue(const LtProduct& product);

// product.d holds alpha * a b + c and becomes what kDRelu, kDReluBgrad, kDGelu or kDGeluBgrad make
// of it; so does product.bias. Takes scratch memory.
// REQUIRES: HasBackwardEpilogue(product).
void BackwardEpilogue(Device& device, const LtProduct& product, cudaStream_t stream);

}  // namespace beamline::cuda
