// The gradient epilogues as a pass over a finished product or an operand. The pass is faster than
// cuBLASLt's own epilogues at some sizes, and the only way if cuBLASLt has none. It is also the
// reference that cuBLASLt's sums are checked against.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/lt_product.h"

namespace beamline::cuda {

// Applies the epilogue (kDRelu, kDGelu or one that writes sums) to product.d, which holds alpha * a
// b + c. Sums go to product.bias. Takes scratch memory. REQUIRES: HasBackwardEpilogue(product).
void BackwardEpilogue(Device& device, const LtProduct& product, cudaStream_t stream);

}  // namespace beamline::cuda
