// The gradient epilogues as a pass over a finished product or an operand: faster than cuBLASLt's
// own at some sizes, the only way where cuBLASLt has none, and the reference that cuBLASLt's sums
// are checked against.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

// product.d holds alpha * a b + c and becomes what the epilogue (kDRelu, kDGelu or one that writes
// sums) makes of it. Sums go to product.bias. Takes scratch memory.
// REQUIRES: HasBackwardEpilogue(product).
void BackwardEpilogue(Device& device, const LtProduct& product, cudaStream_t stream);

}  // namespace beamline::cuda
