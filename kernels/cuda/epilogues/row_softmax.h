// Softmax along the rows of a matrix of any width.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// y[r, j] = exp(x[r, j]) / sum over i of exp(x[r, i]), whatever the magnitude of x; float32
// arithmetic. -inf becomes 0. A row of nothing but -inf, and one with a NaN or +inf, becomes NaN in
// every column, as in PyTorch.
//
// x is read once and y is written once for rows of up to 128 KiB, or up to 1 MiB if the code may
// use thread block clusters (sm_90). Longer rows, and rows whose offsets within 16-byte units
// differ between x and y, are read twice.
struct RowSoftmaxParams {
  Tensor x;  // [num_rows, width], width >= 1; float32, float16 or bfloat16
  Tensor y;  // as x; may be x
};
// Launches it on the device's stream. A fault becomes the device's.
void RowSoftmax(Device& device, const RowSoftmaxParams& params);

}  // namespace beamline::cuda
