// Products of one row and a large weight in float16 and bfloat16 on Hopper (stream_product.cu): the
// weight streams through shared memory by the copy engine, from before the kernel's turn on.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// The whole operator in one kernel, input_norm included. Returns false, having done nothing, for
// more rows than one, for weights that the kernel of few rows (matmul.h) reads as fast, and where
// something cannot be read 16 bytes at a time. REQUIRES: the device has_wgmma().
bool StreamProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
bool StreamProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight);

}  // namespace beamline::cuda
