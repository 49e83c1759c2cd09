// Random device data for measurements and checks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// Numbers in [-1, 1), the same ones at every call.
void FillRandom(Device& device, void* data, DType dtype, size_t count);

// The rows of a matrix, and nothing between them; other numbers for another seed. Types
// of 8 bits: any bits.
void FillRandom(Device& device, const Tensor& matrix, uint32_t seed);

}  // namespace beamline::cuda
