// Random device data for measurements and checks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline::cuda {

// Fills with numbers in [-1, 1], the same ones in every call.
void FillRandom(Device& device, void* data, DType dtype, size_t count);

// Fills the rows of a matrix, and nothing between them. Another seed gives other numbers. Types of
// 8 bits get any bits.
void FillRandom(Device& device, const Tensor& matrix, uint32_t seed);

}  // namespace beamline::cuda
