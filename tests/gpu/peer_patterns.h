// Numbers that a rank, an index and the number of a call make, written and compared on the device:
// tens of thousands of sums are checked each, at the price of two small kernels.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/device.h"
#include "kernels/tensor.h"

namespace beamline {

// Whole numbers of -8 .. 8, so that the sums of eight ranks are exact in every type. `call` is in
// device memory: a recording reads what it is at each replay.
void FillPattern(cuda::Device& device, const Tensor& x, int rank, const uint64_t* call);
// Adds the elements that are not the sum over the ranks to *num_wrong, in device memory.
void CheckPattern(cuda::Device& device, const Tensor& x, int num_ranks, const uint64_t* call,
                  uint64_t* num_wrong);
// *call += 1
void CountCall(cuda::Device& device, uint64_t* call);
// Keeps the stream busy.
void Spin(cuda::Device& device, int microseconds);

}  // namespace beamline
