// Attention by the kernel that attention_picker.h chose: launched on the device's stream, faults
// recorded in the device.
#pragma once

#include "kernels/cuda/attention/attention_picker.h"
#include "kernels/cuda/device/device.h"
#include "kernels/operators.h"

namespace beamline::cuda {

// Heads of at most kMostHeadDim elements.
inline constexpr int kMostHeadDim = 256;
void Compute(Device& device, const AttentionParams& params, const AttentionChoice& choice);

}  // namespace beamline::cuda
