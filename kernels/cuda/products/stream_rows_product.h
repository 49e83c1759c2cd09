// Products of two to eight rows and a weight whose bytes are what takes the time, in float16 and
// bfloat16 on Hopper (stream_rows_product.cu).
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {

// The whole operator in one kernel. Returns false, having done nothing, where it does not apply:
// for other numbers of rows, gates, and rows too long for shared memory or not at multiples of 16
// bytes. REQUIRES: the device has_wgmma(); a 16-bit weight; no input_norm, no softcap.
bool StreamRowsProduct(Device& device, const MatMulParams& params, const CudaWeight& weight);

}  // namespace beamline::cuda
