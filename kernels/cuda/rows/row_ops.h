// Operators that work row by row, one function each: launched on the device's stream, faults
// recorded in the device.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/host_landing.h"
#include "kernels/operators.h"

namespace beamline::cuda {

void Compute(Device& device, const EmbedParams& params);
void Compute(Device& device, const GatherRowsParams& params);
void Compute(Device& device, const UnfoldParams& params);
void Compute(Device& device, const CopyBlocksParams& params);
void Compute(Device& device, const NormParams& params);
// The same where the next launch is a product, which reads nothing but weights before its turn: it
// comes while the kernel before the norm still runs (LetNextKernelCome).
void NormBeforeProduct(Device& device, const NormParams& params);
// `landing`: where the vector of a call's one sequence goes besides; may be nowhere.
void Compute(Device& device, const PoolParams& params, const HostPlace& landing);

// Elements of the longest row that a norm takes: a row waits in shared memory as float32.
int MostNormColumns(const Device& device);

}  // namespace beamline::cuda
