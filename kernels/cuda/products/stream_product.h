// Products of one row and a large weight in float16 and bfloat16 on Hopper (stream_product.cu): the
// weight streams through shared memory by the copy engine, from before the kernel's turn on.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// The whole operator in one kernel, input_norm included. REQUIRES: PickProduct chose kStream.
void StreamProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);
void StreamProduct(Device& device, const ProjectHeadsParams& params, const CudaWeight& weight);

}  // namespace beamline::cuda
