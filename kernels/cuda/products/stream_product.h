// Products of one row and a large weight in float16 and bfloat16 on Hopper (stream_product.cu). The
// copy engine streams the weight through shared memory, from before WaitForEarlierKernels on.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// Computes the whole operator in one kernel, including input_norm. REQUIRES: PickProduct chose
// kStream.
void StreamProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
void StreamProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight);

}  // namespace beamline::cuda
