// Sums over the rows of a matrix, as the gradient of a bias needs them. Accumulated in float32, in
// an order that depends only on the shapes and the GPU: the same bits in every run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// sums[j] = the sum of x's column j. x: [rows, columns] with any row stride; sums: [columns]; each
// float32, float16 or bfloat16. Takes scratch memory.
void ColumnSums(Device& device, const Tensor& x, const Tensor& sums, cudaStream_t stream);

// The second step of such sums: sums[j] = the sum of column j of partials [num_partials, columns].
void SumPartials(Device& device, const float* partials, int64_t num_partials, const Tensor& sums,
                 cudaStream_t stream);

}  // namespace beamline::cuda
